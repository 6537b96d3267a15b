"""core/v1: the names of the secrets that pods use (VisitPodSecretNames)."""

from collections.abc import Iterator

from msgspec import field

from controller_manager.api.meta import APIStruct, PartialMetadata, Projection, Resource

from .v1 import LocalObjectReference


class EnvVarSource(APIStruct, frozen=True):
    """Where the value of an environment variable comes from."""

    secret_key_ref: LocalObjectReference | None = None


class EnvVar(APIStruct, frozen=True):
    """One environment variable."""

    value_from: EnvVarSource | None = None


class EnvFromSource(APIStruct, frozen=True):
    """Where many environment variables come from."""

    secret_ref: LocalObjectReference | None = None


class SecretContainer(APIStruct, frozen=True):
    """The fields of a container that name secrets."""

    env: tuple[EnvVar, ...] | None = None
    env_from: tuple[EnvFromSource, ...] | None = None


class SecretProjection(APIStruct, frozen=True):
    """One source of a projected volume."""

    secret: LocalObjectReference | None = None


class ProjectedSource(APIStruct, frozen=True):
    """The sources of a projected volume."""

    sources: tuple[SecretProjection, ...] | None = None


class NamedSecretSource(APIStruct, frozen=True):
    """A volume that names its secret directly."""

    secret_name: str = ""


class SecretReferenceSource(APIStruct, frozen=True):
    """A volume that refers to a secret."""

    secret_ref: LocalObjectReference | None = None
    node_publish_secret_ref: LocalObjectReference | None = None


class SecretVolume(APIStruct, frozen=True):
    """The fields of a volume that name secrets, one for each kind of volume."""

    azure_file: NamedSecretSource | None = None
    secret: NamedSecretSource | None = None
    projected: ProjectedSource | None = None
    cephfs: SecretReferenceSource | None = None
    cinder: SecretReferenceSource | None = None
    csi: SecretReferenceSource | None = None
    flex_volume: SecretReferenceSource | None = None
    iscsi: SecretReferenceSource | None = None
    rbd: SecretReferenceSource | None = None
    scale_io: SecretReferenceSource | None = field(default=None, name="scaleIO")
    storageos: SecretReferenceSource | None = None


class SecretPodSpec(APIStruct, frozen=True):
    """The fields of a pod's spec that name secrets."""

    image_pull_secrets: tuple[LocalObjectReference, ...] | None = None
    containers: tuple[SecretContainer, ...] | None = None
    init_containers: tuple[SecretContainer, ...] | None = None
    ephemeral_containers: tuple[SecretContainer, ...] | None = None
    volumes: tuple[SecretVolume, ...] | None = None


class SecretPod(Projection, frozen=True):
    """A projection of a pod to the secrets that it uses."""

    metadata: PartialMetadata = PartialMetadata()
    spec: SecretPodSpec = SecretPodSpec()


SECRET_PODS: Resource[SecretPod] = Resource("", "v1", "pods", "Pod", SecretPod)
"""Pods, to be read from the API server; caches hold `Pod`."""


def secret_names(pod: SecretPod) -> Iterator[str]:
    """Yield the names of all secrets that a pod uses, some several times."""
    spec = pod.spec
    for each in spec.image_pull_secrets or ():
        yield each.name
    for containers in (
        spec.containers,
        spec.init_containers,
        spec.ephemeral_containers,
    ):
        for container in containers or ():
            yield from _of_container(container)
    for volume in spec.volumes or ():
        yield from _of_volume(volume)


def _of_container(container: SecretContainer) -> Iterator[str]:
    for source in container.env_from or ():
        if source.secret_ref is not None:
            yield source.secret_ref.name
    for variable in container.env or ():
        value = variable.value_from
        if value is not None and value.secret_key_ref is not None:
            yield value.secret_key_ref.name


def _of_volume(volume: SecretVolume) -> Iterator[str]:
    for named in (volume.azure_file, volume.secret):
        if named is not None:
            yield named.secret_name
    if volume.projected is not None:
        for source in volume.projected.sources or ():
            if source.secret is not None:
                yield source.secret.name
    referring = (
        *(volume.cephfs, volume.cinder, volume.csi, volume.flex_volume),
        *(volume.iscsi, volume.rbd, volume.scale_io, volume.storageos),
    )
    for each in referring:
        for reference in (
            (each.secret_ref, each.node_publish_secret_ref) if each else ()
        ):
            if reference is not None:
                yield reference.name
