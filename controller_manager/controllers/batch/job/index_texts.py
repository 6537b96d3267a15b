"""The index sets of long texts in the statuses of jobs, each parsed once."""

from typing import Final

from controller_manager.controllers.batch.job.indexes import IndexSet
from controller_manager.runtime.spread import Spread

_LONG: Final = 1000
"""Characters: shorter texts are parsed faster than a set is worth remembering."""

_MOST: Final = 4
"""Texts of one job: two fields, each before and after a status is written."""


class IndexTexts:
    """Remembers the sets of the last long texts of each job.

    A job with every second of 80,000 indexes completed has a text of 40,000 parts.
    Parsing it takes 50 ms, and each sync needs it.
    """

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._known: dict[str, dict[tuple[str, int], IndexSet]] = {}

    def read(self, key: str, text: str, completions: int) -> IndexSet:
        """Return the indexes below `completions` of a text in the status of a job."""
        known = self._find(key, text, completions)
        return IndexSet.parse(text, completions) if known is None else known

    def reading(self, key: str, text: str, completions: int) -> Spread[None]:
        """Parse a text in parts, unless its set is known, and remember the set."""
        if len(text) < _LONG:
            return
        found = self._find(key, text, completions)
        if found is None:
            found = yield from IndexSet.parsing(text, completions)
        self.note(key, text, completions, found)

    def note(self, key: str, text: str, completions: int, indexes: IndexSet) -> None:
        """Remember the set of a text, and forget the oldest one beyond four."""
        if len(text) < _LONG:
            return
        known = self._known.setdefault(key, {})
        known.pop((text, completions), None)  # the newest is the last
        known[text, completions] = indexes
        while len(known) > _MOST:
            del known[next(iter(known))]

    def forget(self, key: str) -> None:
        """Forget a job that is gone or finished."""
        self._known.pop(key, None)

    def _find(self, key: str, text: str, completions: int) -> IndexSet | None:
        return self._known.get(key, {}).get((text, completions))
