"""The entries of the overlay: the writes to each object that are not confirmed yet."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from controller_manager.options.config import PreviewConfig

from .changes import ChangeLog
from .fields import (
    JSON,
    Path,
    as_number,
    change_number,
    server_version,
    version_of,
    with_value,
)
from .findings import Findings
from .target import Key, Target

_ENDED_PHASES: Final = ("Succeeded", "Failed")
_DEFAULT_GRACE_PERIOD: Final = 30


@dataclass(slots=True)
class Written:
    """The value that a controller wrote to one field, and when (seconds)."""

    value: Any
    controller: str
    since: float


@dataclass(slots=True)
class Deletion:
    """A deletion by a controller: when, and the state of the object from then on."""

    controller: str
    since: float
    timestamp: str
    grace_period: int


@dataclass(slots=True)
class Creation:
    """A creation by a controller, and the object that the overlay made of it.

    `sent` is the content of the request, `made` the object right after the creation.
    `changed_siblings` is true if the overlay had changes or deletions of other objects
    of its owner then.
    """

    controller: str
    since: float
    sent: JSON
    made: JSON
    current: JSON
    changed_siblings: bool = False


@dataclass(slots=True)
class Entry:
    """The writes to one object that the manager in charge has not made yet.

    `real` is the object as the server had it last, None for a created object.
    `change` is the number of the newest change of the overlay to this object.
    """

    target: Target
    kind: str
    real: JSON | None = None
    creation: Creation | None = None
    fields: dict[Path, Written] = field(default_factory=dict)
    deletion: Deletion | None = None
    change: int = 0
    size: int = 0

    @property
    def key(self) -> Key:
        """The identity of the object."""
        return self.target.key

    @property
    def is_confirmed(self) -> bool:
        """True if no write is left."""
        return not (self.creation or self.fields or self.deletion)

    def since(self) -> float:
        """Return when the oldest write was made."""
        times = [each.since for each in self.fields.values()]
        times += [each.since for each in (self.creation, self.deletion) if each]
        return min(times, default=0.0)

    def measure(self) -> int:
        """Set and return the size of the entry in bytes, about."""
        values = [each.value for each in self.fields.values()]
        made = self.creation and (self.creation.sent, self.creation.current)
        kept = [each for each in values if each is not msgspec.UNSET]
        self.size = 2 * len(msgspec.json.encode([kept, made, self.real])) + 500
        return self.size

    def view(self, real: JSON | None) -> JSON | None:
        """Return a version of the object with the writes; None if it is gone."""
        if self.creation is not None:
            return _living(self.creation.current)
        if real is None:
            return None
        obj = real
        for path, written in self.fields.items():
            obj = with_value(obj, path, written.value)
        if any(path[0] != "metadata" and path[0] != "status" for path in self.fields):
            obj = next_generation(obj, real)
        if self.deletion is not None:
            obj = terminating(obj, self.deletion.timestamp, self.deletion.grace_period)
        return _living(obj)


def next_generation(obj: JSON, former: JSON) -> JSON:
    """Return the object with the generation after that of `former`, if it counts."""
    generation = former.get("metadata", {}).get("generation")
    if not isinstance(generation, int):
        return obj
    metadata = {**obj.get("metadata", {}), "generation": generation + 1}
    return {**obj, "metadata": metadata}


def terminating(obj: JSON, timestamp: str, grace_period: int) -> JSON:
    """Return the object as the server has it once its deletion was requested."""
    metadata = obj.get("metadata", {})
    if metadata.get("deletionTimestamp"):
        return obj
    changed = {
        **metadata,
        "deletionTimestamp": timestamp,
        "deletionGracePeriodSeconds": grace_period,
    }
    deleted = {**obj, "metadata": changed}
    if deleted.get("kind") == "Namespace":
        status = {**deleted.get("status", {}), "phase": "Terminating"}
        deleted["status"] = status
    return deleted


def grace_period_of(obj: JSON, wanted: int | None) -> int:
    """Return the grace period in seconds that the server gives a deleted object."""
    if obj.get("kind") != "Pod":
        return 0
    spec = obj.get("spec", {})
    has_ended = obj.get("status", {}).get("phase") in _ENDED_PHASES
    if has_ended or not spec.get("nodeName"):
        return 0
    if wanted is not None:
        return wanted
    return int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_PERIOD))


def _living(obj: JSON) -> JSON | None:
    """Return the object, None if the server would have removed it."""
    metadata = obj.get("metadata", {})
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return obj
    if obj.get("kind") == "Namespace" and obj.get("spec", {}).get("finalizers"):
        return obj
    return obj if metadata.get("deletionGracePeriodSeconds") else None


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
