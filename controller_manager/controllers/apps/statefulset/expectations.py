"""Deletions of pods that the cache does not show yet."""

from collections.abc import Callable

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting, split_key


class UnseenDeletions:
    """The pods that were deleted for each key, as long as the cache shows them.

    A deletion has no version that a sync could wait for, so the uids of the pods are
    kept. A set is not synced while the cache shows one of these pods as not being
    deleted: each sync would delete it again.
    """

    def __init__(self, pods: Callable[[str, str], Pod | None]) -> None:
        self._pods = pods
        self._names: dict[str, dict[str, str]] = {}
        """The names of the pods by uid, for each key."""

    def sent(self, key: str, pod: Pod) -> None:
        """Expect the deletion of a pod, which is about to be sent."""
        self._names.setdefault(key, {})[pod.metadata.uid] = pod.metadata.name

    def failed(self, key: str, pod: Pod) -> None:
        """Stop expecting the deletion of a pod; a second deletion does no harm."""
        self._names.get(key, {}).pop(pod.metadata.uid, None)

    def are_unseen(self, key: str) -> bool:
        """Tell whether the cache shows fewer deletions than were sent for a key."""
        names = self._names.pop(key, {})
        namespace, _ = split_key(key)
        unseen = {
            uid: name
            for uid, name in names.items()
            if self._stays(namespace, name, uid)
        }
        if unseen:
            self._names[key] = unseen
        return bool(unseen)

    def _stays(self, namespace: str, name: str, uid: str) -> bool:
        """Tell whether a cached pod is the one of this uid, and not being deleted."""
        pod = self._pods(namespace, name)
        return pod is not None and pod.metadata.uid == uid and not is_deleting(pod)

    def forget(self, key: str) -> None:
        """Drop the deletions of a key that is gone."""
        self._names.pop(key, None)
