"""The scales of the owners of pods (the finders of disruption.go).

The scales of built-in workloads come from caches, those of any other kind from the
scale subresource.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from controller_manager.api.apps import v1
from controller_manager.api.core.v1 import REPLICATION_CONTROLLERS, Pod
from controller_manager.api.meta import OwnerReference, controller_of
from controller_manager.client.rest.errors import NotFound
from controller_manager.control.scales import Scales
from controller_manager.informers.store import BY_CONTROLLER, Lister
from controller_manager.runtime.context import ControllerContext

_APPS: Final = ("apps", "extensions")

WorkloadT = TypeVar("WorkloadT", bound=v1.Workload)


class Uncountable(Exception):
    """The expected pods cannot be counted; users see the message."""


class Scale(Struct, frozen=True):
    """The pods that an owner wants; a deployment owns the pods of its replica sets."""

    uid: str
    replicas: int


class OwnerScales:
    """Finds the numbers of pods that the owners of pods want."""

    def __init__(self, context: ControllerContext) -> None:
        self._resources = context.resources
        self._scales = Scales(context.client, context.resources)
        self.controllers = context.lister(REPLICATION_CONTROLLERS)
        self.deployments = context.lister(v1.DEPLOYMENTS)
        self.replica_sets = context.lister(v1.REPLICASETS, BY_CONTROLLER)
        self.stateful_sets = context.lister(v1.STATEFUL_SETS)

    async def expected(self, pods: Iterable[Pod]) -> tuple[int, bool]:
        """Return the pods that the owners want (getExpectedScale), and if one has none.

        Raises Uncountable if an owner is not found, NoScale and KindNotServed if it has
        no scale, and the errors of the client.
        """
        scales: dict[str, int] = {}
        found: set[str] = set()
        has_unmanaged = False
        for pod in pods:
            reference = controller_of(pod)
            if reference is None:
                has_unmanaged = True
            elif reference.uid not in found:
                scale = await self._scale_of(pod, reference)
                scales[scale.uid] = scale.replicas
                found.add(reference.uid)
        return sum(scales.values()), has_unmanaged

    async def _scale_of(self, pod: Pod, reference: OwnerReference) -> Scale:
        namespace = pod.metadata.namespace
        group, version = _parsed(reference.api_version)
        found = self._cached(namespace, group, reference)
        if found is None:
            found = await self._stored(namespace, group, version, reference)
        if found is None:
            name = msgspec.json.encode(pod.metadata.name).decode()
            msg = f"found no controllers for pod {name}"
            raise Uncountable(msg)
        return found

    def _cached(
        self, namespace: str, group: str, reference: OwnerReference
    ) -> Scale | None:
        match group, reference.kind:
            case "", "ReplicationController":
                return _scale(self.controllers, namespace, reference)
            case "apps", "StatefulSet":
                return _scale(self.stateful_sets, namespace, reference)
            case (("apps" | "extensions"), "ReplicaSet"):
                return self._of_replica_set(namespace, reference)
        return None

    def _of_replica_set(
        self, namespace: str, reference: OwnerReference
    ) -> Scale | None:
        # If the deployment is gone, the replica set is on its own, and the API server
        # tells its scale.
        replica_set = _owner(self.replica_sets, namespace, reference)
        if replica_set is None:
            return None
        owner = controller_of(replica_set)
        if owner is None or owner.kind != v1.DEPLOYMENTS.kind:
            return _scale_of(replica_set)
        group, _ = _parsed(owner.api_version)
        if group not in _APPS:
            return None
        return _scale(self.deployments, namespace, owner)

    async def _stored(
        self, namespace: str, group: str, version: str, reference: OwnerReference
    ) -> Scale | None:
        resource = await self._resources.resource_of(group, reference.kind, version)
        try:
            scale = await self._scales.get(resource, namespace, reference.name)
        except NotFound:
            return None
        if scale.metadata.uid != reference.uid:
            return None
        return Scale(scale.metadata.uid, scale.spec.replicas)


def _parsed(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    if "/" in group:
        msg = f"unexpected GroupVersion string: {api_version}"
        raise Uncountable(msg)
    return group, version


def _owner(
    lister: Lister[WorkloadT], namespace: str, reference: OwnerReference
) -> WorkloadT | None:
    found = lister.get(namespace, reference.name)
    return found if found and found.metadata.uid == reference.uid else None


def _scale(
    lister: Lister[WorkloadT], namespace: str, reference: OwnerReference
) -> Scale | None:
    found = _owner(lister, namespace, reference)
    return None if found is None else _scale_of(found)


def _scale_of(owner: v1.Workload) -> Scale:
    return Scale(owner.metadata.uid, v1.desired_replicas(owner))
