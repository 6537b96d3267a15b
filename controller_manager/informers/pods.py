"""Pods in caches: each spec is decoded once, unused fields go, equal parts are shared.

Almost every change of a pod leaves its spec as it is. And the specs of the pods of one
owner differ by their nodes, and by the name of a volume with a token. So the bytes of a
spec are looked up before they are decoded; each is decoded and made smaller once.

Only the hashes of the bytes are remembered, with a secret before them: a spec may have
passwords, and a user must not be able to make two specs with the same hash.
"""

import os
import re
from collections.abc import Callable, Hashable, Iterator
from sys import intern
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from controller_manager.api.core.scheduling import Toleration, crosses_namespaces
from controller_manager.api.core.v1 import (
    RESIZE_PENDING,
    Container,
    EphemeralContainer,
    InitContainer,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    PodVolume,
)
from controller_manager.api.meta import PartialMetadata
from controller_manager.client.rest.serializer import EventDecoder, WatchEvent

from .reads import MAX_REMEMBERED, OwnerTransform, Trim

SPEC: Final = b',"spec":{'
"""The beginning of the bytes of a spec.

In valid JSON it is the beginning of a field of some object: no string has a quotation
mark without a backslash.
"""

_MAX_BYTES: Final = 64 * 1024
"""The bytes of a spec that is looked up at most."""

_TOKEN: Final = b"kube-api-access-"
"""The beginning of the name of the volume that the API server adds for the token."""

_TOKEN_OF_POD: Final = re.compile(rb'"(kube-api-access-[a-z0-9]{5})"')
_NODE: Final = b',"nodeName":"'
_NODE_OF_POD: Final = re.compile(rb',"nodeName":"([-.a-z0-9]+)"')

_KeyT = TypeVar("_KeyT", bound=Hashable)
_ValueT = TypeVar("_ValueT")


class _Alone(Struct, forbid_unknown_fields=True):
    """An object with a spec, and with no other field."""

    spec: PodSpec


_DECODER: Final = msgspec.json.Decoder(_Alone)
_ENCODER: Final = msgspec.json.Encoder()

_Base = tuple[int, int]
"""The hash of a spec without its node and token, and the place of its node."""


class SharedSpecs:
    """The specs of pods by their bytes, made smaller.

    All of them are forgotten once they are many.
    """

    def __init__(self, make_smaller: Callable[[PodSpec], PodSpec]) -> None:
        """`make_smaller` transforms a spec that is decoded."""
        self._make_smaller = make_smaller
        self._secret = os.urandom(16)
        self._by_bytes: dict[int, PodSpec] = {}
        self._bases: dict[_Base, PodSpec | None] = {}
        """The specs without a node; `None` for one that depends on the token."""
        self._bound: dict[tuple[_Base, bytes], PodSpec] = {}
        self._by_id: dict[int, PodSpec] = {}

    def has(self, spec: PodSpec) -> bool:
        """Tell whether this object is a shared spec, which must stay as it is."""
        return self._by_id.get(id(spec)) is spec

    def find(self, text: bytes) -> PodSpec | None:
        """Return the spec of these bytes, which begin with `SPEC`, made smaller.

        `None` if they are not exactly one field of an object, if the spec cannot be
        decoded or made smaller, or if it is very long.
        """
        key = hash(self._secret + text)
        spec = self._by_bytes.get(key)
        if spec is None and len(text) <= _MAX_BYTES:
            try:
                spec = self._made_of(text)
            except Exception:  # noqa: BLE001 - the pod is decoded as a whole
                # So the error is reported with the name of the pod.
                return None
            _remember(self._by_bytes, key, spec)
            _remember(self._by_id, id(spec), spec)
        return spec

    def _made_of(self, text: bytes) -> PodSpec:
        without_token = _without_token(text)
        rest, place, node = _without_node(without_token)
        key = hash(self._secret + rest), place
        if key in self._bases:
            base = self._bases[key]
        else:
            base = self._base_of(rest, without_token, node)
            _remember(self._bases, key, base)
        if base is None:
            return self._smaller(text)
        if not node:
            return base
        bound = self._bound.get((key, node))
        if bound is None:
            bound = self._make_smaller(replace(base, node_name=node.decode()))
            _remember(self._bound, (key, node), bound)
        return bound

    def _base_of(self, rest: bytes, text: bytes, node: bytes) -> PodSpec | None:
        """Return a spec without node and token, `None` if it depends on more."""
        base = self._smaller(rest)
        if node and (base.node_name or _decoded(text).node_name != node.decode()):
            return None
        return None if _TOKEN in _ENCODER.encode(base) else base

    def _smaller(self, text: bytes) -> PodSpec:
        return self._make_smaller(_decoded(text))


def _decoded(text: bytes) -> PodSpec:
    return _DECODER.decode(b"{%b}" % text[1:]).spec


def _without_token(text: bytes) -> bytes:
    """Return a spec whose volume with the token has the same name in all pods."""
    start = text.find(b'"' + _TOKEN)
    found = _TOKEN_OF_POD.match(text, start) if start >= 0 else None
    return text if found is None else text.replace(found[1], _TOKEN)


def _without_node(text: bytes) -> tuple[bytes, int, bytes]:
    """Return a spec without the name of its node, the place of the name, and the name.

    The name is empty if the spec has none.
    """
    start = text.find(_NODE)
    found = _NODE_OF_POD.match(text, start) if start >= 0 else None
    if found is None:
        return text, 0, b""
    return text[:start] + text[found.end() :], start, found[1]


def _remember(table: dict[_KeyT, _ValueT], key: _KeyT, value: _ValueT) -> None:
    if len(table) >= MAX_REMEMBERED:
        table.clear()
    table[key] = value


_STATUS: Final = b',"status":{'


class PodEventDecoder(EventDecoder[Pod]):
    """Decodes the lines of a watch of pods, whose specs are shared.

    A short spec takes the place of the long one before the line is decoded. It has a
    secret text, so that no other spec is taken for it: pods have fields, such as
    managedFields, in which another field may be called spec. A line for which this
    fails in any way is decoded as a whole, so errors are the same.
    """

    def __init__(self, specs: SharedSpecs) -> None:
        super().__init__(Pod)
        self._specs = specs
        self._mark = os.urandom(8).hex()
        self._marked = SPEC + b'"hostname":"%b"}' % self._mark.encode()

    def decode(self, line: bytes) -> WatchEvent[Pod]:
        """Return the event of one line; see `EventDecoder.decode`."""
        start, end = line.find(SPEC), line.rfind(_STATUS)
        if 0 < start < end:
            spec = self._specs.find(line[start:end])
            if spec is not None:
                marked = b"%b%b%b" % (line[:start], self._marked, line[end:])
                event = self._with_spec(marked, spec)
                if event is not None:
                    return event
        return super().decode(line)

    def _with_spec(self, marked: bytes, spec: PodSpec) -> WatchEvent[Pod] | None:
        """Return the event of a line, with this spec in the place of the mark.

        `None` if the mark is not in the place of the pod's spec.
        """
        try:
            event = self.decode_object(marked)
        except msgspec.DecodeError:
            return None
        if event.object.spec.hostname != self._mark:
            return None
        force_setattr(event.object, "spec", spec)
        return event


_Container = Container | InitContainer | EphemeralContainer

_Tolerations = tuple[Toleration, ...]

_Containers = tuple[tuple[Container, ...], tuple[InitContainer, ...] | None]
"""The containers of a pod, and its init containers."""


class PodTransform:
    """Drops unused fields of pods and makes pods share equal parts."""

    def __init__(
        self,
        trim: Trim | None = None,
        trim_but_spec: Trim | None = None,
        *,
        is_whole: bool = False,
    ) -> None:
        """`trim` drops the unused fields, `trim_but_spec` those not in the spec.

        With `is_whole`, some controller reads whole pods: nothing is dropped.
        """
        self._trim = trim
        self._trim_but_spec = trim_but_spec
        self._is_whole = is_whole
        self._owners = OwnerTransform()
        self._labels: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self._containers: dict[bytes, _Containers] = {}
        self._tolerations: dict[_Tolerations, _Tolerations] = {}
        self._volumes: dict[bytes, tuple[PodVolume, ...]] = {}
        self.specs = SharedSpecs(self._smaller_spec)
        """The specs that pods share. They are transformed already."""

    def __call__(self, pod: Pod) -> None:
        """Drop the unused fields of `pod`, and share equal parts with other pods."""
        # The trim may drop the condition that decides about another reduction.
        is_settled = (
            not self._is_whole and _states_resources(pod) and not _is_resizing(pod)
        )
        if self.specs.has(pod.spec):
            if self._trim_but_spec is not None:
                self._trim_but_spec(pod)
        else:
            if self._trim is not None:
                self._trim(pod)
            self._make_spec_smaller(pod.spec)
        self._owners.share(pod.metadata)
        self._share_labels(pod.metadata)
        if is_settled:
            _drop_settled_resources(pod)
        _share_status(pod.status)

    def _smaller_spec(self, spec: PodSpec) -> PodSpec:
        """Make a spec smaller, which belongs to no pod yet."""
        pod = Pod(metadata=PodMeta(), spec=spec, status=PodStatus())
        if self._trim is not None:
            self._trim(pod)
        self._make_spec_smaller(pod.spec)
        return pod.spec

    def _make_spec_smaller(self, spec: PodSpec) -> None:
        force_setattr(spec, "node_name", intern(spec.node_name))
        if not self._is_whole:
            _reduce(spec)
        self._share_tolerations(spec)
        self._share_volumes(spec)
        self._share_containers(spec)

    def _share_containers(self, spec: PodSpec) -> None:
        """Share containers among pods whose containers are alike.

        Most pods have an owner, which gives the same ones to all its pods.
        """
        if (containers := spec.containers) is None:
            return
        both = (containers, spec.init_containers)
        if len(self._containers) >= MAX_REMEMBERED:
            self._containers.clear()
        known = self._containers.setdefault(_ENCODER.encode(both), both)
        force_setattr(spec, "containers", known[0])
        force_setattr(spec, "init_containers", known[1])

    def _share_tolerations(self, spec: PodSpec) -> None:
        """Share tolerations: most pods have the two that the API server adds."""
        if tolerations := spec.tolerations:
            if len(self._tolerations) >= MAX_REMEMBERED:
                self._tolerations.clear()
            known = self._tolerations.setdefault(tolerations, tolerations)
            force_setattr(spec, "tolerations", known)

    def _share_volumes(self, spec: PodSpec) -> None:
        """Share volumes with templates of claims among the pods of one owner.

        They take 0.8 kB. Other volumes are small, or name a claim of one pod only.
        """
        volumes = spec.volumes
        if volumes and any(each.ephemeral is not None for each in volumes):
            if len(self._volumes) >= MAX_REMEMBERED:
                self._volumes.clear()
            known = self._volumes.setdefault(_ENCODER.encode(volumes), volumes)
            force_setattr(spec, "volumes", known)

    def _share_labels(self, metadata: PartialMetadata) -> None:
        if labels := metadata.labels:
            if len(self._labels) >= MAX_REMEMBERED:
                self._labels.clear()
            shared = self._labels.setdefault(tuple(labels.items()), labels)
            force_setattr(metadata, "labels", shared)


def _reduce(spec: PodSpec) -> None:
    """Drop the parts of declared fields that no controller of this program reads."""
    if (
        spec.node_name
        and spec.affinity is not None
        and not crosses_namespaces(spec.affinity)
    ):
        # No controller reads the node affinity of a pod that has a node. 100,000 daemon
        # pods, each with an affinity to the name of its node, would need 50 MB more.
        # Quotas count the pods that look at pods of other namespaces.
        force_setattr(spec, "affinity", None)
    if spec.volumes:
        force_setattr(spec, "volumes", _with_source(spec.volumes))
    for containers in (spec.containers, spec.init_containers):
        for each in containers or ():
            _keep_named_ports(each)
    if not _has_several_labels(spec):
        volumes = {each.name for each in spec.volumes or ()}
        for mounting in _containers_of(spec):
            _keep_mounts(mounting, volumes)


def _containers_of(spec: PodSpec) -> Iterator[_Container]:
    yield from spec.containers or ()
    yield from spec.init_containers or ()
    yield from spec.ephemeral_containers or ()


def _has_several_labels(spec: PodSpec) -> bool:
    """Tell whether containers have different SELinux labels: few pods have those.

    Such a pod is told of each volume that is mounted with two labels, also of those
    that no controller looks at.
    """
    of_pod = spec.security_context and spec.security_context.se_linux_options
    labels = {
        (each.security_context and each.security_context.se_linux_options) or of_pod
        for each in _containers_of(spec)
    }
    return len(labels - {None}) > 1


def _with_source(volumes: tuple[PodVolume, ...]) -> tuple[PodVolume, ...] | None:
    """Return the volumes with a source that is read: most pods have others only."""
    found = [each for each in volumes if not _is_other(each)]
    return tuple(found) or None


def _is_other(volume: PodVolume) -> bool:
    return volume == PodVolume(name=volume.name)


def _keep_named_ports(container: Container | InitContainer) -> None:
    """Drop the ports that have no name: a service can refer to the others only."""
    if container.ports:
        named = tuple(port for port in container.ports if port.name)
        force_setattr(container, "ports", named or None)


def _keep_mounts(container: _Container, volumes: set[str]) -> None:
    """Drop the mounts of the volumes that are dropped.

    Nearly each container mounts a volume with a token, whose name is that of no other
    pod. Without these mounts, the containers of the pods of an owner are equal.
    """
    if mounts := container.volume_mounts:
        kept = tuple(each for each in mounts if each.name in volumes)
        force_setattr(container, "volume_mounts", kept or None)


def _share_status(status: PodStatus) -> None:
    force_setattr(status, "phase", intern(status.phase))
    for each in status.conditions or ():
        force_setattr(each, "type", intern(each.type))
        force_setattr(each, "status", intern(each.status))
    for container in status.container_statuses or ():
        force_setattr(container, "name", intern(container.name))


def _is_resizing(pod: Pod) -> bool:
    """Tell whether a kubelet puts off, or refuses, to resize a pod.

    After a refusal only the status counts (`control.quota.pod_resources`), so it must
    have the resources of each container, even if they equal those of the spec.
    """
    return any(each.type == RESIZE_PENDING for each in pod.status.conditions or ())


def _states_resources(pod: Pod) -> bool:
    """Tell whether the status of a pod has resources, its own or of a container."""
    status = pod.status
    if status.resources is not None:
        return True
    for statuses in (status.container_statuses, status.init_container_statuses):
        for each in statuses or ():
            if each.resources is not None or each.allocated_resources:
                return True
    return False


def _drop_settled_resources(pod: Pod) -> None:
    """Drop the resources of a container's status that are those of its spec.

    The kubelet reports them for each container, in part or as a whole. They say
    something only while a pod is being resized; the caller makes sure that no resize
    is pending.
    """
    spec, status = pod.spec, pod.status
    if spec.resources is None and status.resources is not None:
        # They count only where the pod states resources for itself as a whole.
        force_setattr(status, "resources", None)
        force_setattr(status, "allocated_resources", None)
    statuses = (
        *(status.container_statuses or ()),
        *(status.init_container_statuses or ()),
    )
    containers: tuple[Container | InitContainer, ...] = (
        *(spec.containers or ()),
        *(spec.init_containers or ()),
    )
    wanted = {each.name: each.resources for each in containers}
    for each in statuses:
        settled, allocated = wanted.get(each.name), each.allocated_resources
        if (
            settled is not None
            and each.resources in (None, settled)
            and allocated in (None, settled.requests)
        ):
            force_setattr(each, "resources", None)
            force_setattr(each, "allocated_resources", None)
