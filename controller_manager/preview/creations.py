"""The objects that the preview creates, and those of the server that match them.

If watches are late, the two managers may see the changes of a user in different steps:
one of them makes a replica set for a template that the other never saw. Then both
numbers of a later revision are right, each for its manager.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from controller_manager.clock import Clock

from .absentees import Ledger, Owner, owner_of
from .changes import ChangeLog
from .contents import changed_fields, has_value, unlike, with_other_uid, with_other_uids
from .entries import Creation, Entries, Entry, Written
from .fields import JSON, REMOVED, Item, Path, value_at
from .findings import Findings
from .target import Key, Target

_KEPT_OWNERS: Final = 4_000


class _Seen(Struct):
    owner: Owner
    at: float
    created: str


class Siblings:
    """When the preview saw each new object with an owner for the first time."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    def observe(self, owner: Owner, obj: JSON, at: float) -> None:
        """Remember when a new object of the server was seen, in seconds."""
        metadata = obj.get("metadata", {})
        uid = str(metadata.get("uid", ""))
        if not owner.uid or uid in self._seen:
            return
        created = str(metadata.get("creationTimestamp", ""))
        self._seen[uid] = _Seen(owner, at, created)
        if len(self._seen) > _KEPT_OWNERS:
            self._seen.popitem(last=False)

    def came_late(self, owner: Owner, obj: JSON, decided: float) -> bool:
        """Tell whether the preview did not know a sibling of an object in time.

        The server had the sibling when the object was created, and the preview saw it
        only after it had `decided` to create the object, in seconds.
        """
        metadata = obj.get("metadata", {})
        uid, created = metadata.get("uid"), str(metadata.get("creationTimestamp", ""))
        return any(
            seen.owner == owner and seen.at > decided and seen.created <= created
            for other, seen in self._seen.items()
            if other != uid
        )


_OWNERS: Final = ("metadata", "ownerReferences")
_KEPT: Final = 4_000
"""The most objects that are remembered after their entry is gone."""


@dataclass(slots=True)
class Mismatch:
    """An object that both managers created, with other values in some fields.

    `fields` has the values of the preview and of the manager in charge. `had_siblings`
    is true if the preview had made other objects of the owner that the server lacks, or
    had changed some.
    """

    entry: Entry
    since: float
    fields: dict[Path, tuple[Any, Any]]
    had_siblings: bool


class Creations:
    """Replaces created objects by the objects of the server that match them."""

    def __init__(
        self,
        entries: Entries,
        ledger: Ledger,
        changes: ChangeLog,
        findings: Findings,
        clock: Clock,
        grace: float,
    ) -> None:
        """Start without matches; `grace` seconds is the tolerance of timestamps."""
        self.mismatches: OrderedDict[Key, Mismatch] = OrderedDict()
        self.renames = 0
        """The number of created objects that the server's objects have replaced."""

        self._entries = entries
        self._ledger = ledger
        self._changes = changes
        self._findings = findings
        self._clock = clock
        self._grace = grace
        self._siblings = Siblings()
        self._uids: OrderedDict[str, str] = OrderedDict()

    def translated(self, body: Any) -> Any:  # noqa: ANN401 - JSON
        """Return a body in which uids of confirmed objects are the server's."""
        return with_other_uids(body, self._uids) if self._uids else body

    def add(self, entry: Entry, made: JSON) -> int:
        """Add a created object, and show it; return the number of the change."""
        if (creation := entry.creation) is not None:
            creation.changed_siblings = self._has_changed_siblings(entry, creation)
        self._entries.put(entry)
        number = entry.change = self._changes.publish(entry.key, made, made)
        self._match_late(entry)
        return number

    def observe_new(self, target: Target, obj: JSON) -> None:
        """Compare a new object of the server with the creations of the preview.

        One whose name is not generated is compared later, by its name.
        """
        metadata = obj.get("metadata", {})
        if not metadata.get("generateName"):
            if target.key not in self._entries:
                owner = owner_of(target, obj)
                self._siblings.observe(owner, obj, self._clock.monotonic())
            return
        uid = str(metadata.get("uid", ""))
        if not self._ledger.is_first(f"new {uid}"):
            return
        for entry in self._entries.invented(target):
            if self._matches(entry, target, obj):
                self.realise(entry, target, obj)
                return
        self._ledger.add_made(uid, target, obj)

    def near_miss(self, entry: Entry) -> JSON | None:
        """Return an object of the server that differs from a creation in some fields.

        It has the same owner and the same generated name, and no creation matches it.
        """
        creation = entry.creation
        if creation is None:
            return None
        generated = creation.sent.get("metadata", {}).get("generateName")
        owner = owner_of(entry.target, creation.sent)
        found = self._ledger.take_made(
            lambda target, obj: (
                bool(generated)
                and obj["metadata"].get("generateName") == generated
                and owner_of(target, obj) == owner
            )
        )
        return None if found is None else found[1]

    def realise(self, entry: Entry, target: Target, obj: JSON) -> None:
        """Replace a created object by the object of the server that matches it."""
        creation = entry.creation
        if creation is None:
            return
        self._entries.remove(entry)
        if entry.key != target.key:
            self._changes.publish(entry.key, None, creation.current)
        old_uid = str(creation.made["metadata"]["uid"])
        self._rename(old_uid, str(obj.get("metadata", {}).get("uid", "")))
        self._note(entry, creation, target, obj)
        self._carry_over(entry, creation, target, obj, old_uid)

    def saw_the_same(self, mismatch: Mismatch, real: JSON) -> bool:
        """Tell whether both managers knew the same objects of the owner.

        Otherwise a difference may follow from late watches; see `Siblings`.
        """
        creation, target = mismatch.entry.creation, mismatch.entry.target
        if creation is None or mismatch.had_siblings:
            return False
        owner = owner_of(target, real)
        return not self._siblings.came_late(owner, real, creation.since)

    def _matches(self, entry: Entry, target: Target, obj: JSON) -> bool:
        if entry.creation is None or entry.target.collection != target.collection:
            return False
        if entry.target.namespace != target.namespace:
            return False
        sent = entry.creation.sent.get("metadata", {})
        generated = obj.get("metadata", {}).get("generateName")
        if not generated or sent.get("generateName") != generated:
            return False
        missing = unlike(target.collection, obj, entry.creation.sent, self._grace)
        return next(missing, None) is None

    def _match_late(self, entry: Entry) -> None:
        """Match a creation with an object that the server had before."""
        found = self._ledger.take_made(
            lambda target, obj: self._matches(entry, target, obj)
        )
        if found is not None:
            self.realise(entry, *found)

    def _note(
        self, entry: Entry, creation: Creation, target: Target, obj: JSON
    ) -> None:
        """Confirm a creation, or remember the fields in which it differs."""
        sent = self.translated(creation.sent)
        fields = {
            path: (value, value_at(obj, path))
            for path, value in unlike(target.collection, obj, sent, self._grace)
            if not _is_of_former_owner(path, obj)
        }
        if not fields:
            self._findings.confirm(creation.controller, entry.kind)
            return
        now = self._clock.monotonic()
        had_siblings = creation.changed_siblings or self._has_siblings(entry, creation)
        self.mismatches[target.key] = Mismatch(entry, now, fields, had_siblings)
        if len(self.mismatches) > _KEPT:
            self.mismatches.popitem(last=False)

    def _has_siblings(self, entry: Entry, creation: Creation) -> bool:
        """Tell whether the preview made other objects of the owner before this one."""
        owner = owner_of(entry.target, creation.sent)
        return bool(owner.uid) and any(
            other.creation is not None
            and other.creation.since < creation.since
            and owner_of(other.target, other.creation.sent) == owner
            for other in self._entries
        )

    def _has_changed_siblings(self, entry: Entry, creation: Creation) -> bool:
        """Tell whether the preview has changed or deleted other objects of the owner.

        A new revision has a higher number than all others, and the preview may have
        given one of them a higher number. Pods and others with generated names have no
        such numbers, and there may be thousands of them.
        """
        owner = owner_of(entry.target, creation.sent)
        if not owner.uid or creation.sent.get("metadata", {}).get("generateName"):
            return False
        return any(
            owner_of(other.target, other.real or {}) == owner
            for other in self._entries
            if other.fields or other.deletion
        )

    def _carry_over(
        self,
        entry: Entry,
        creation: Creation,
        target: Target,
        obj: JSON,
        old_uid: str,
    ) -> None:
        """Keep the later writes to a created object, on the object of the server."""
        uid = str(obj.get("metadata", {}).get("uid", ""))
        later = Entry(target.whole, entry.kind, obj)
        now = self._clock.monotonic()
        for path, value in changed_fields(creation.made, creation.current):
            renamed = with_other_uid(value, old_uid, uid)
            if not has_value(target.collection, obj, path, renamed, self._grace):
                written = Written(renamed, creation.controller, now)
                later.fields[_renamed_path(path, old_uid, uid)] = written
        if later.fields and target.key not in self._entries:
            self._entries.put(later)
            self._entries.show(later, obj)

    def _rename(self, old: str, new: str) -> None:
        """Replace the uid of a created object by the server's in all entries."""
        if not old or not new or old == new:
            return
        self._uids[old] = new
        self.renames += 1
        if len(self._uids) > _KEPT:
            self._uids.popitem(last=False)
        for entry in self._entries:
            if self._entries.get(entry.key) is entry and _renamed(entry, old, new):
                real = entry.real or {}
                last = entry.creation.current if entry.creation else real
                self._entries.show(entry, last)
                self._match_late(entry)


def _renamed(entry: Entry, old: str, new: str) -> bool:
    """Replace a uid in an entry; tell whether it was there."""
    is_changed = False
    if (creation := entry.creation) is not None:
        for name in ("sent", "made", "current"):
            value = getattr(creation, name)
            renamed = with_other_uid(value, old, new)
            is_changed = is_changed or renamed is not value
            setattr(creation, name, renamed)
    fields = {}
    for path, written in entry.fields.items():
        value = with_other_uid(written.value, old, new)
        is_changed = is_changed or value is not written.value
        written.value = value
        fields[_renamed_path(path, old, new)] = written
    entry.fields = fields
    return is_changed


def _is_of_former_owner(path: Path, obj: JSON) -> bool:
    """Tell whether a field is that of an owner that an object has no more.

    It was orphaned since its creation. A controller that wants to own it adopts it.
    """
    return path[:2] == _OWNERS and value_at(obj, path[:3]) is REMOVED


def _renamed_path(path: Path, old: str, new: str) -> Path:
    return tuple(
        Item(step.field, new) if isinstance(step, Item) and step.value == old else step
        for step in path
    )
