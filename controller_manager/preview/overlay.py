"""The overlay: the writes of the preview, on top of the objects of the server."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from controller_manager.api.times import parse_time
from controller_manager.clock import Clock
from controller_manager.preview.absentees import Absentee, Absentees
from controller_manager.preview.changes import ChangeLog
from controller_manager.preview.contents import (
    changed_fields,
    controller_uid,
    has_value,
    unlike,
    with_other_uid,
    with_other_uids,
)
from controller_manager.preview.entry import Creation, Deletion, Entry, Written
from controller_manager.preview.fields import JSON, REMOVED, Item, Path, value_at
from controller_manager.preview.findings import Findings
from controller_manager.preview.ledger import Ledger, Owner
from controller_manager.preview.settings import PreviewSettings
from controller_manager.preview.target import Key, Target
from controller_manager.preview.versions import (
    as_number,
    change_number,
    server_version,
    version_of,
)

_OWNERS: Final = ("metadata", "ownerReferences")
_KEPT: Final = 4_000
"""The most objects that are remembered after their entry is gone."""


@dataclass(slots=True)
class Mismatch:
    """An object that both managers created, with other values in some fields.

    `fields` has the values of the preview and of the manager in charge.
    """

    entry: Entry
    since: float
    fields: dict[Path, tuple[Any, Any]]


class Overlay:
    """The entries by object, and what becomes of them when the server's objects change.

    The methods that record a write return the number of the change. The overlay never
    waits: its callers read the server's objects.
    """

    def __init__(
        self,
        settings: PreviewSettings,
        clock: Clock,
        findings: Findings,
        absent: Iterable[Absentee] = (),
    ) -> None:
        """Start without entries; `absent` are controllers that do not run here."""
        self.settings = settings
        self.clock = clock
        self.findings = findings
        self.changes = ChangeLog(settings.most_changes)
        self.entries: OrderedDict[Key, Entry] = OrderedDict()
        self.mismatches: OrderedDict[Key, Mismatch] = OrderedDict()
        self.bytes = 0
        self.renames = 0
        """The number of created objects that the server's objects have replaced."""

        self._ledger = Ledger(clock, grace=settings.grace, most=_KEPT)
        self.absentees = Absentees(
            absent, findings, self._ledger, clock, grace=settings.grace
        )
        self._released: OrderedDict[Key, tuple[int, int]] = OrderedDict()
        self._uids: OrderedDict[str, str] = OrderedDict()
        self._ending: OrderedDict[str, None] = OrderedDict()

    def view(self, key: Key, real: JSON | None) -> JSON | None:
        """Return an object of the server as the preview sees it, None if it is gone."""
        entry = self.entries.get(key)
        return entry.view(real) if entry is not None else real

    def invented(self, target: Target) -> Iterable[Entry]:
        """Return the entries of objects that only the preview has created."""
        return [
            each
            for each in self.entries.values()
            if each.creation is not None
            and each.target.collection == target.collection
            and target.namespace in ("", each.target.namespace)
        ]

    def is_current(self, key: Key, real: JSON | None, version: str) -> bool:
        """Tell whether an object still has the version that a writer has seen."""
        change = change_number(version)
        if (entry := self.entries.get(key)) is not None:
            return change == entry.change
        stored = version_of(real)
        if change:
            return self._released.get(key) == (change, stored)
        return as_number(server_version(version)) == stored

    def is_ending(self, namespace: str) -> bool:
        """Tell whether the server is deleting a namespace."""
        return namespace in self._ending

    def translated(self, body: Any) -> Any:  # noqa: ANN401 - JSON
        """Return a body in which uids of confirmed objects are the server's."""
        return with_other_uids(body, self._uids) if self._uids else body

    # Writes of the preview.

    def create(self, target: Target, controller: str, sent: JSON, made: JSON) -> int:
        """Record the creation of an object; return the number of the change."""
        now = self.clock.monotonic()
        entry = Entry(target, str(made.get("kind", "")))
        entry.creation = Creation(controller, now, sent, made, made)
        self._put(entry)
        entry.change = self.changes.publish(entry.key, made, made)
        number = entry.change
        self._match_late(entry)
        return number

    def write(self, target: Target, controller: str, real: JSON, new: JSON) -> int:
        """Record the new state of an object; return the number of the change.

        `real` is the object on the server, `new` the view of it after the write.
        """
        entry = self.entries.get(target.key)
        if entry is not None and entry.creation is not None:
            entry.creation.current = new
        else:
            entry = entry or Entry(_of_object(target), str(new.get("kind", "")))
            entry.real = real
            self._set_fields(entry, controller, new)
        if entry.is_confirmed:
            self._remove(entry)
            return self._show(entry.key, real, real)
        self._put(entry)
        return self._shown(entry, real)

    def delete(self, target: Target, deletion: Deletion, real: JSON | None) -> int:
        """Record the deletion of an object; return the number of the change."""
        entry = self.entries.get(target.key)
        if entry is not None and entry.creation is not None:
            # Created and deleted by the preview: there is nothing to confirm.
            self._remove(entry)
            made = entry.creation.current
            return self.changes.publish(entry.key, None, made)
        kind = str((real or {}).get("kind", ""))
        entry = entry or Entry(_of_object(target), kind, real)
        entry.deletion = entry.deletion or deletion
        self._put(entry)
        number = self._shown(entry, real or {})
        if self._ledger.take_ended(_owner(target, real or {})):
            self._confirm(deletion.controller, kind)
            entry.deletion = None
            self._settle(entry)
        return number

    def _set_fields(self, entry: Entry, controller: str, new: JSON) -> None:
        now = self.clock.monotonic()
        former, entry.fields = entry.fields, {}
        for path, value in changed_fields(entry.real or {}, new):
            if entry.deletion and path == ("status", "phase"):
                continue
            known = former.get(path)
            if known is not None and known.value == value:
                entry.fields[path] = known
            else:
                since = known.since if known is not None else now
                entry.fields[path] = Written(value, controller, since)

    def _shown(self, entry: Entry, last: JSON) -> int:
        """Have watches show an entry; return the number of the change."""
        view = entry.view(entry.real)
        entry.change = self.changes.publish(entry.key, view, last)
        return entry.change

    def _show(self, key: Key, obj: JSON | None, last: JSON) -> int:
        """Have watches show an object of the server again."""
        number = self.changes.publish(key, obj, last)
        stored = version_of(obj)
        self._released[key] = number, stored
        self._released.move_to_end(key)
        if len(self._released) > _KEPT:
            self._released.popitem(last=False)
        return number

    def _put(self, entry: Entry) -> None:
        self.bytes -= entry.size if entry.key in self.entries else 0
        self.entries[entry.key] = entry
        self.bytes += entry.measure()
        settings = self.settings
        while self.entries and (
            len(self.entries) > settings.most_entries
            or self.bytes > settings.most_bytes
        ):
            self.findings.drop()
            self.drop(next(iter(self.entries.values())))

    def _remove(self, entry: Entry) -> None:
        if self.entries.get(entry.key) is entry:
            del self.entries[entry.key]
            self.bytes -= entry.size

    def drop(self, entry: Entry) -> None:
        """Forget the writes to an object, so that the server's object shows again."""
        self._remove(entry)
        if entry.creation is not None:
            self.changes.publish(entry.key, None, entry.creation.current)
        elif entry.real is not None:
            self._show(entry.key, entry.real, entry.real)

    # Changes on the server.

    def observe(self, target: Target, obj: JSON, *, is_new: bool = False) -> None:
        """Compare an object of the server with the writes to it.

        With `is_new` the object has just been added: it may match a creation.
        """
        metadata = obj.get("metadata", {})
        if metadata.get("deletionTimestamp"):
            self._ended(target, obj)
        elif is_new and metadata.get("generateName") and self._is_recent(metadata):
            self._created(target, obj)
        entry = self.entries.get(target.key)
        if entry is None:
            return
        if entry.creation is not None:
            self._realise(entry, target, obj)
        elif version_of(obj) > version_of(entry.real):
            self._compare(entry, obj)

    def observe_ending(self, target: Target, obj: JSON) -> None:
        """Confirm a deletion if the server is deleting the object; see `observe`.

        `obj` may be only the metadata of the object.
        """
        if obj.get("metadata", {}).get("deletionTimestamp"):
            self._ended(target, obj)

    def observe_gone(self, target: Target, last: JSON) -> None:
        """Confirm the writes to an object that the server has no more."""
        self._ended(target, last)
        entry = self.entries.get(target.key)
        if target.collection.plural == "namespaces" and not target.collection.group:
            self._ending.pop(target.name, None)
            self._drop_namespace(target.name)
        if entry is None or entry.creation is not None:
            return
        uid = (entry.real or {}).get("metadata", {}).get("uid")
        if uid in (None, last.get("metadata", {}).get("uid", uid)):
            for written in entry.fields.values():
                self._confirm(written.controller, entry.kind)
            self._remove(entry)

    def _drop_namespace(self, namespace: str) -> None:
        for entry in list(self.entries.values()):
            if entry.target.namespace == namespace:
                self._remove(entry)
                if entry.creation is not None:
                    current = entry.creation.current
                    self.changes.publish(entry.key, None, current)

    def _compare(self, entry: Entry, obj: JSON) -> None:
        """Drop the writes that the server has, and all that were contradicted."""
        former, entry.real = entry.real or {}, obj
        entry.change = self.changes.next_number()
        collection, grace = entry.target.collection, self.settings.grace
        is_contradicted = False
        for path, written in list(entry.fields.items()):
            if has_value(collection, obj, path, written.value, grace):
                self._confirm(written.controller, entry.kind)
                del entry.fields[path]
            elif value_at(obj, path) != value_at(former, path):
                is_contradicted = True
        if is_contradicted:
            # Another writer has decided since: let the controller decide again.
            entry.fields.clear()
        if entry.is_confirmed:
            self._remove(entry)

    def _ended(self, target: Target, obj: JSON) -> None:
        """Confirm a deletion, of this object or of another one of the same owner."""
        if target.collection.plural == "namespaces" and not target.collection.group:
            self._ending[target.name] = None
        entry = self.entries.get(target.key)
        uid = str(obj.get("metadata", {}).get("uid", ""))
        is_first = self._ledger.is_first(f"end {uid}")
        if entry is not None and entry.deletion is not None:
            self._confirm(entry.deletion.controller, entry.kind)
            entry.deletion = None
            if entry.is_confirmed:
                self._remove(entry)
            return
        owner = _owner(target, obj)
        if not is_first or not owner.uid:
            return
        for other in list(self.entries.values()):
            if other.deletion is not None and owner == _owner(
                other.target, other.real or {}
            ):
                # The two managers chose different objects of the same owner.
                self._confirm(other.deletion.controller, other.kind)
                other.deletion = None
                self._settle(other)
                return
        self._ledger.add_ended(uid, owner)

    def _settle(self, entry: Entry) -> None:
        """Show an entry whose deletion is confirmed by that of another object."""
        real = entry.real or {}
        if entry.is_confirmed:
            self._remove(entry)
            self._show(entry.key, entry.real, real)
        else:
            self._shown(entry, real)

    def _is_recent(self, metadata: JSON) -> bool:
        try:
            created = parse_time(str(metadata.get("creationTimestamp", "")))
        except ValueError:
            return False
        age = (self.clock.now() - created).total_seconds()
        return age <= 2 * self.settings.grace

    def _created(self, target: Target, obj: JSON) -> None:
        """Match an object with a generated name with a creation of the preview."""
        uid = str(obj.get("metadata", {}).get("uid", ""))
        if not self._ledger.is_first(f"new {uid}"):
            return
        for entry in self.invented(target):
            if self._matches(entry, target, obj):
                self._realise(entry, target, obj)
                return
        self._ledger.add_made(uid, target, obj)

    def _matches(self, entry: Entry, target: Target, obj: JSON) -> bool:
        if entry.creation is None or entry.target.collection != target.collection:
            return False
        if entry.target.namespace != target.namespace:
            return False
        sent = entry.creation.sent.get("metadata", {})
        generated = obj.get("metadata", {}).get("generateName")
        if not generated or sent.get("generateName") != generated:
            return False
        missing = unlike(
            target.collection, obj, entry.creation.sent, self.settings.grace
        )
        return next(missing, None) is None

    def _match_late(self, entry: Entry) -> None:
        """Match a creation with an object that the server had before."""
        found = self._ledger.take_made(
            lambda target, obj: self._matches(entry, target, obj)
        )
        if found is not None:
            self._realise(entry, *found)

    def near_miss(self, entry: Entry) -> JSON | None:
        """Return an object of the server that differs from a creation in some fields.

        It has the same owner and the same generated name, and no creation matches it.
        """
        creation = entry.creation
        if creation is None:
            return None
        generated = creation.sent.get("metadata", {}).get("generateName")
        owner = _owner(entry.target, creation.sent)
        found = self._ledger.take_made(
            lambda target, obj: (
                bool(generated)
                and obj["metadata"].get("generateName") == generated
                and _owner(target, obj) == owner
            )
        )
        return None if found is None else found[1]

    def _realise(self, entry: Entry, target: Target, obj: JSON) -> None:
        """Replace a created object by the object of the server that matches it."""
        creation = entry.creation
        if creation is None:
            return
        self._remove(entry)
        if entry.key != target.key:
            self.changes.publish(entry.key, None, creation.current)
        old_uid = str(creation.made["metadata"]["uid"])
        self._rename(old_uid, str(obj.get("metadata", {}).get("uid", "")))
        self._note_creation(entry, target, obj)
        self._carry_over(entry, target, obj, old_uid)

    def _note_creation(self, entry: Entry, target: Target, obj: JSON) -> None:
        """Confirm a creation, or remember the fields in which it differs."""
        creation = entry.creation
        if creation is None:
            return
        sent = self.translated(creation.sent)
        grace = self.settings.grace
        fields = {
            path: (value, value_at(obj, path))
            for path, value in unlike(target.collection, obj, sent, grace)
            if not _is_of_former_owner(path, obj)
        }
        if not fields:
            self._confirm(creation.controller, entry.kind)
            return
        self.mismatches[target.key] = Mismatch(entry, self.clock.monotonic(), fields)
        if len(self.mismatches) > _KEPT:
            self.mismatches.popitem(last=False)

    def _carry_over(
        self, entry: Entry, target: Target, obj: JSON, old_uid: str
    ) -> None:
        """Keep the later writes to a created object, on the object of the server."""
        creation = entry.creation
        if creation is None:
            return
        uid = str(obj.get("metadata", {}).get("uid", ""))
        later = Entry(_of_object(target), entry.kind, obj)
        now, grace = self.clock.monotonic(), self.settings.grace
        for path, value in changed_fields(creation.made, creation.current):
            renamed = with_other_uid(value, old_uid, uid)
            if not has_value(target.collection, obj, path, renamed, grace):
                written = Written(renamed, creation.controller, now)
                later.fields[_renamed_path(path, old_uid, uid)] = written
        if later.fields and target.key not in self.entries:
            self._put(later)
            self._shown(later, obj)

    def _rename(self, old: str, new: str) -> None:
        """Replace the uid of a created object by the server's in all entries."""
        if not old or not new or old == new:
            return
        self._uids[old] = new
        self.renames += 1
        if len(self._uids) > _KEPT:
            self._uids.popitem(last=False)
        for entry in list(self.entries.values()):
            if self.entries.get(entry.key) is entry and _renamed(entry, old, new):
                real = entry.real or {}
                last = entry.creation.current if entry.creation else real
                self._shown(entry, last)
                self._match_late(entry)

    def _confirm(self, controller: str, kind: str) -> None:
        self.findings.confirm(controller, kind)


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


def _of_object(target: Target) -> Target:
    """Return the target of the object itself, without a subresource."""
    return Target(target.collection, target.version, target.namespace, target.name)


def _owner(target: Target, obj: JSON) -> Owner:
    return Owner(target.collection, target.namespace, controller_uid(obj))
