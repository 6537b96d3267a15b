"""Creates the claims of ephemeral volumes (pkg/controller/volume/ephemeral)."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter

from controller_manager.api import meta
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, ClaimTemplate, Pod, PodVolume
from controller_manager.client.events.recorder import WARNING
from controller_manager.client.rest import errors
from controller_manager.control.pod_indexes import PODS_BY_CLAIM, claim_name
from controller_manager.informers.changes import DependsOn
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

from . import EphemeralVolumeOptions


def ephemeral_volumes(pod: Pod) -> Iterator[PodVolume]:
    """Yield the volumes of a pod for which claims are made, in their order."""
    return (each for each in pod.spec.volumes or () if each.ephemeral is not None)


def conflict(pod: meta.KubeObject, claim: meta.KubeObject) -> str:
    """Return why the pod does not own a claim, "" if it does (VolumeIsForPod)."""
    if meta.is_controlled_by(claim, pod):
        return ""
    found, owner = meta.key_of(claim), meta.key_of(pod)
    return f"PVC {found} was not created for pod {owner} (pod is not owner)"


def claim_of(pod: Pod, volume: PodVolume) -> PersistentVolumeClaim:
    """Return the claim to create from the template of a pod's ephemeral volume."""
    source = volume.ephemeral
    template = (source and source.volume_claim_template) or ClaimTemplate()
    metadata = meta.ObjectMeta(
        name=claim_name(pod, volume),
        namespace=pod.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=meta.owned_by(pod, PODS),
    )
    return PersistentVolumeClaim(metadata=metadata, raw_spec=template.spec)


class EphemeralVolumeMetrics:
    """The ``ephemeral_volume_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "ephemeral_volume_controller"
        self.created = Counter(
            f"{prefix}_create_total",
            "Number of requests that create a PersistentVolumeClaim",
            registry=registry,
        )
        self.failed = Counter(
            f"{prefix}_create_failures_total",
            "Number of requests that could not create a PersistentVolumeClaim",
            registry=registry,
        )


def needs_claims(pod: Pod) -> bool:
    """Tell whether a pod needs claims; a pod that is being deleted needs none."""
    return not meta.is_deleting(pod) and any(ephemeral_volumes(pod))


class EphemeralVolumeReconciler(Reconciler[Pod]):
    """Creates a claim for each ephemeral volume of a pod; the pod owns it."""

    queue_name = "ephemeral_volume"

    def _pods_of(self, claim: meta.KubeObject) -> Iterable[str]:
        found = self._pods.by_index(PODS_BY_CLAIM, meta.key_of(claim))
        return map(meta.key_of, filter(needs_claims, found))

    watches = (
        For(
            PODS,
            when=needs_claims,
            when_changed=lambda *_: False,
            depends_on=DependsOn(),
        ),
        Maps(CLAIMS, _pods_of, on=("delete",)),
    )

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = context.config.of(EphemeralVolumeOptions).concurrent_syncs
        self._metrics = context.metrics.of(EphemeralVolumeMetrics)
        self._pods = context.lister(PODS, PODS_BY_CLAIM)

    async def reconcile(self, pod: Pod) -> Outcome:
        """Create the claims that the pod lacks, up to the first failure."""
        if not meta.is_deleting(pod):
            for volume in ephemeral_volumes(pod):
                await self._ensure_claim(pod, volume)
        return DONE

    async def _ensure_claim(self, pod: Pod, volume: PodVolume) -> None:
        """Create the claim of a volume, if there is none (handleVolume).

        A namespace that is being deleted accepts none; its pods are deleted, too.
        """
        namespace, name = pod.metadata.namespace, claim_name(pod, volume)
        claim: meta.KubeObject | None = self.lister(CLAIMS).get(namespace, name)
        if claim is None:
            self._metrics.created.inc()
            try:
                claim = await self.client.create(CLAIMS, claim_of(pod, volume))
            except (
                errors.APIError,
                errors.TransportError,
                errors.ProtocolError,
            ) as error:
                self._metrics.failed.inc()
                if errors.is_namespace_terminating(error):
                    return
                if isinstance(error, errors.AlreadyExists):
                    claim = await self._stored(namespace, name)
                if claim is None:
                    problem = f"create PVC {name}: {error}"
                    raise self._failed(pod, volume, problem) from error
        if problem := conflict(pod, claim):
            raise self._failed(pod, volume, problem)

    async def _stored(self, namespace: str, name: str) -> meta.KubeObject | None:
        """Read a claim that the cache does not show yet."""
        try:
            return await self.client.get(CLAIMS, namespace, name)
        except errors.NotFound:
            return None

    def _failed(self, pod: Pod, volume: PodVolume, problem: str) -> SyncError:
        problem = f"ephemeral volume {volume.name}: {problem}"
        self.recorder.event(PODS, pod, WARNING, "FailedBinding", problem)
        return SyncError(f"pod {meta.key_of(pod)}, {problem}")
