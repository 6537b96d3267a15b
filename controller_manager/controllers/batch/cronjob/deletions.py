"""Deleted jobs that the cache still shows."""


class Deletions:
    """The uids of jobs that were deleted, until the watch shows that they go.

    Without this a job that was just deleted would look like one that was forgotten.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._uids: dict[str, set[str]] = {}

    def __len__(self) -> int:
        """Return the number of cron jobs with such jobs."""
        return len(self._uids)

    def note(self, key: str, uid: str) -> None:
        """Note the deletion of a job of the cron job `key`."""
        self._uids.setdefault(key, set()).add(uid)

    def seen(self, key: str, uid: str) -> None:
        """Note that the cache shows a deletion, or that it has failed."""
        uids = self._uids.get(key, set())
        uids.discard(uid)
        if not uids:
            self._uids.pop(key, None)

    def has(self, key: str, uid: str) -> bool:
        """Tell whether a job was deleted and is still shown."""
        return uid in self._uids.get(key, ())

    def forget(self, key: str) -> None:
        """Drop the jobs of a cron job that is gone."""
        self._uids.pop(key, None)
