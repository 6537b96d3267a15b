"""Remembers the uids of pods that are gone (uid_cache.go)."""

from typing import Final

_CAPACITY: Final = 500


class DeletedPods:
    """The last pods that were deleted, by uid.

    A claim that is reserved for one of them loses it without a question to the API
    server. The capacity bounds the memory: for an older pod the API server is asked.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        """Start empty."""
        self._capacity = capacity
        self._uids: dict[str, None] = {}

    def __len__(self) -> int:
        """Return how many pods are remembered."""
        return len(self._uids)

    def __contains__(self, uid: str) -> bool:
        """Tell whether the pod with this uid is known to be gone."""
        return uid in self._uids

    def add(self, uid: str) -> None:
        """Note that a pod is gone; the oldest one is forgotten for it if necessary."""
        self._uids.pop(uid, None)
        self._uids[uid] = None
        if len(self._uids) > self._capacity:
            del self._uids[next(iter(self._uids))]
