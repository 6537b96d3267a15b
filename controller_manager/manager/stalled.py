"""The rollouts in the caches that do not get on, or may not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.apps.v1 import (
    DAEMON_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    DaemonSet,
    Deployment,
    StatefulSet,
)
from controller_manager.api.resource import AnyResource
from controller_manager.api.workloads import desired_replicas
from controller_manager.informers.informer import SharedInformer

_SLICE: Final = 500
"""The objects that are looked at in one turn of the event loop."""

_STUCK: Final = frozenset(
    (
        ("Progressing", "False", "ProgressDeadlineExceeded"),
        ("Progressing", "False", "ReplicaSetCreateError"),
    )
)


class Stalled(Struct, frozen=True):
    """A rollout that does not get on.

    With `is_certain` its status says that it is stuck; only a deployment's does.
    """

    resource: AnyResource
    namespace: str
    name: str
    uid: str
    is_certain: bool


async def stalled(informers: Iterable[SharedInformer[Any]]) -> AsyncIterator[Stalled]:
    """Yield the rollouts in the caches that do not get on; other caches are skipped."""
    for informer in informers:
        judge = _JUDGES.get(informer.resource.group_resource)
        if judge is None or not informer.is_synced or informer.resource.metadata_only:
            continue
        for number, key in enumerate(informer.store.keys()):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            obj = informer.store.get(key)
            if obj is None or obj.metadata.deletion_timestamp:
                continue
            if (is_certain := judge(obj)) is not None:
                yield Stalled(
                    informer.resource,
                    obj.metadata.namespace,
                    obj.metadata.name,
                    obj.metadata.uid,
                    is_certain,
                )


def _deployment(deployment: Deployment) -> bool | None:
    """Tell that a deployment is stuck; `None` if it is not."""
    for each in deployment.status.conditions or ():
        if (each.type, each.status, each.reason) in _STUCK:
            return True
        if (each.type, each.status) == ("ReplicaFailure", "True"):
            return True
    return None


def _stateful_set(stateful_set: StatefulSet) -> bool | None:
    """Tell that a stateful set may be stuck; `None` if its rollout is complete."""
    wanted, status = desired_replicas(stateful_set), stateful_set.status
    is_available = status.available_replicas >= wanted
    is_updated = status.current_revision == status.update_revision
    return None if is_available and is_updated else False


def _daemon_set(daemon_set: DaemonSet) -> bool | None:
    """Tell that a daemon set may be stuck; `None` if its rollout is complete."""
    status = daemon_set.status
    wanted = status.desired_number_scheduled
    is_available = status.number_available >= wanted
    is_updated = status.updated_number_scheduled >= wanted
    return None if is_available and is_updated else False


_JUDGES: Final[dict[str, Callable[[Any], bool | None]]] = {
    DAEMON_SETS.group_resource: _daemon_set,
    DEPLOYMENTS.group_resource: _deployment,
    STATEFUL_SETS.group_resource: _stateful_set,
}
