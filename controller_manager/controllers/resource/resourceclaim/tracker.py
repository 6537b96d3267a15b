"""Keeps the uids of deleted pods (uid_cache.go)."""

from typing import Final

_CAPACITY: Final = 500


class DeletedPods:
    """The last pods that were deleted, by uid.

    A claim that is reserved for one of them loses that reservation without a request to
    the API server. The capacity limits the memory: for an older pod the API server is
    asked.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        """Start empty."""
        self._capacity = capacity
        self._uids: dict[str, None] = {}

    def __len__(self) -> int:
        """Return the number of pods."""
        return len(self._uids)

    def __contains__(self, uid: str) -> bool:
        """Tell whether the pod with this uid was deleted."""
        return uid in self._uids

    def add(self, uid: str) -> None:
        """Add a deleted pod; drop the oldest one if there is no room."""
        self._uids.pop(uid, None)
        self._uids[uid] = None
        if len(self._uids) > self._capacity:
            del self._uids[next(iter(self._uids))]
