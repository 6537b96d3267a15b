"""The entries of the overlay by object, and the changes that watches are shown."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from controller_manager.options.config import PreviewConfig

from .changes import ChangeLog
from .entry import Entry
from .fields import JSON, as_number, change_number, server_version, version_of
from .findings import Findings
from .target import Key, Target

_KEPT: Final = 4_000
"""The most objects that are remembered after their entry is gone."""


class Entries:
    """The objects with unconfirmed writes, a bounded number of objects and bytes."""

    def __init__(
        self, settings: PreviewConfig, changes: ChangeLog, findings: Findings
    ) -> None:
        """Start empty; `findings` counts the entries that found no room."""
        self.bytes = 0
        self._settings = settings
        self._changes = changes
        self._findings = findings
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._released: OrderedDict[Key, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the entries as they are now, the oldest first."""
        return iter(list(self._entries.values()))

    def __contains__(self, key: Key) -> bool:
        """Tell whether an object has an entry."""
        return key in self._entries

    def get(self, key: Key) -> Entry | None:
        """Return the entry of an object, None for none."""
        return self._entries.get(key)

    def invented(self, target: Target) -> list[Entry]:
        """Return the entries of objects that only the preview has created."""
        return [
            each
            for each in self
            if each.creation is not None
            and each.target.collection == target.collection
            and target.namespace in ("", each.target.namespace)
        ]

    def is_current(self, key: Key, real: JSON | None, version: str) -> bool:
        """Tell whether an object still has the version that a writer has seen."""
        change = change_number(version)
        if (entry := self.get(key)) is not None:
            return change == entry.change
        stored = version_of(real)
        if change:
            return self._released.get(key) == (change, stored)
        return as_number(server_version(version)) == stored

    def put(self, entry: Entry) -> None:
        """Add an entry or measure it again; drop the oldest if there is no room."""
        self.bytes -= entry.size if entry.key in self._entries else 0
        self._entries[entry.key] = entry
        self.bytes += entry.measure()
        settings = self._settings
        while self._entries and (
            len(self._entries) > settings.most_entries
            or self.bytes > settings.most_bytes
        ):
            self._findings.drop()
            self.drop(next(iter(self._entries.values())))

    def remove(self, entry: Entry) -> None:
        """Forget an entry, unless the object has another one."""
        if self.get(entry.key) is entry:
            del self._entries[entry.key]
            self.bytes -= entry.size

    def drop(self, entry: Entry) -> None:
        """Forget the writes to an object, so that the server's object shows again."""
        self.remove(entry)
        if entry.creation is not None:
            self._changes.publish(entry.key, None, entry.creation.current)
        elif entry.real is not None:
            self.show_real(entry.key, entry.real)

    def show(self, entry: Entry, last: JSON) -> int:
        """Have watches show an entry instead of `last`; return the change's number."""
        view = entry.view(entry.real)
        entry.change = self._changes.publish(entry.key, view, last)
        return entry.change

    def show_real(self, key: Key, real: JSON) -> int:
        """Have watches show an object of the server; return the change's number."""
        number = self._changes.publish(key, real, real)
        self._released[key] = number, version_of(real)
        self._released.move_to_end(key)
        if len(self._released) > _KEPT:
            self._released.popitem(last=False)
        return number
