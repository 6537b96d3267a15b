"""Which pods use a group (podgroup_protection_controller.go)."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject, key_of, resource_version_number
from controller_manager.api.pods import TERMINAL_PHASES
from controller_manager.client.client import Client
from controller_manager.informers.indexes import Index
from controller_manager.runtime.outcome import SyncError


def group_of(pod: Pod) -> str:
    """Return the key of a pod's group, "" if it has none."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return ""
    return f"{pod.metadata.namespace}/{group.pod_group_name}"


def used_by(pod: Pod) -> Iterable[str]:
    """Return the key of the group that a pod uses; one that has ended uses none."""
    group = group_of(pod)
    return (group,) if group and pod.status.phase not in TERMINAL_PHASES else ()


def _uses_the_same(old: Pod, new: Pod) -> bool:
    return used_by(old) == used_by(new)


BY_GROUP: Final = Index("pod group", used_by, _uses_the_same)
"""The pods that use a group, by its key."""


class LiveUse:
    """The groups in use, as the API server has the pods of a namespace now.

    One list serves all groups of a namespace that were deleted before it.
    """

    def __init__(self, client: Client) -> None:
        """Take the client; nothing is listed yet."""
        self._client = client
        self.forget()

    def forget(self) -> None:
        """Drop what the last list has shown."""
        self._namespace = ""
        self._version = 0
        self._used: set[str] = set()

    async def is_used(self, group: KubeObject) -> bool:
        """Tell whether a pod uses a group that is being deleted.

        Raises SyncError if the API server answers with a list that is older than the
        deletion.
        """
        key, namespace = key_of(group), group.metadata.namespace
        deleted = resource_version_number(group.metadata.resource_version)
        is_new = self._namespace == namespace and self._version >= deleted
        if is_new and key not in self._used:
            return False
        await self._list(namespace)
        if self._version < deleted:
            msg = f"the API server's pods are older than the pod group {key}"
            raise SyncError(msg)
        return key in self._used

    async def _list(self, namespace: str) -> None:
        self.forget()
        used: set[str] = set()
        version = 0
        async for page in self._client.list_all(PODS, namespace):
            version = resource_version_number(page.resource_version)
            for pod in page.items:
                used.update(used_by(pod))
        self._namespace, self._version, self._used = namespace, version, used
