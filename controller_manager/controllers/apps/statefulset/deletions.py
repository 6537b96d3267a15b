"""Deletions of pods that the cache does not show yet."""

from collections.abc import Iterable

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting


class UnseenDeletions:
    """The pods that were deleted for each key, as long as the cache shows them.

    A deletion has no version for which the cache could be waited, so the uids of the
    pods are remembered. A set is not synced while the cache shows one of them as not
    being deleted: each sync would delete it again.
    """

    def __init__(self) -> None:
        """Start without deletions."""
        self._uids: dict[str, set[str]] = {}

    def sent(self, key: str, pod: Pod) -> None:
        """Note that a pod is about to be deleted."""
        self._uids.setdefault(key, set()).add(pod.metadata.uid)

    def failed(self, key: str, pod: Pod) -> None:
        """Note that a pod may not have been deleted; a second deletion does no harm."""
        self._uids.get(key, set()).discard(pod.metadata.uid)

    def are_unseen(self, key: str, cached: Iterable[Pod]) -> bool:
        """Tell whether `cached`, the pods of a key, show less than was deleted."""
        if key not in self._uids:
            return False
        staying = {pod.metadata.uid for pod in cached if not is_deleting(pod)}
        unseen = self._uids.pop(key) & staying
        if unseen:
            self._uids[key] = unseen
        return bool(unseen)

    def forget(self, key: str) -> None:
        """Drop the deletions of a key that is gone."""
        self._uids.pop(key, None)
