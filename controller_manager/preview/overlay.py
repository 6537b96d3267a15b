"""The overlay: the writes of the preview, on top of the objects of the server."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from controller_manager.api.scalars import parse_time
from controller_manager.clock import Clock
from controller_manager.options.config import PreviewConfig

from .absentees import Absentee, Absentees, Ledger, owner_of
from .changes import ChangeLog
from .contents import changed_fields, has_value
from .creations import Creations
from .entries import Creation, Deletion, Entries, Entry, Written
from .fields import JSON, value_at, version_of
from .findings import Findings
from .target import Key, Target

_KEPT: Final = 4_000
"""The most creations and deletions of the server that are remembered, and the most
namespaces that end."""


class Overlay:
    """The writes of the preview, and their ends when the server's objects change.

    The methods that record a write return the number of the change. The overlay never
    waits: its callers read the server's objects.
    """

    def __init__(
        self,
        settings: PreviewConfig,
        clock: Clock,
        findings: Findings,
        absent: Iterable[Absentee] = (),
    ) -> None:
        """Start without entries; `absent` are controllers that do not run here."""
        self.settings = settings
        self.clock = clock
        self.changes = ChangeLog(settings.most_changes)
        self.entries = Entries(settings, self.changes, findings)
        grace = settings.grace
        self._ledger = Ledger(clock, grace=grace, most=_KEPT)
        self.creations = Creations(
            self.entries, self._ledger, self.changes, findings, clock, grace
        )
        self.absentees = Absentees(absent, findings, self._ledger, clock, grace=grace)
        self._findings = findings
        self._ending: OrderedDict[str, None] = OrderedDict()

    def view(self, key: Key, real: JSON | None) -> JSON | None:
        """Return an object of the server as the preview sees it, None if it is gone."""
        entry = self.entries.get(key)
        return entry.view(real) if entry is not None else real

    def is_ending(self, namespace: str) -> bool:
        """Tell whether the server was deleting a namespace when it was last seen.

        A watch that was broken may not have shown the end of the deletion.
        """
        return namespace in self._ending

    def has_not_ended(self, namespace: str) -> None:
        """Note that the server is not deleting the namespace of this name."""
        self._ending.pop(namespace, None)

    # Writes of the preview.

    def create(self, target: Target, controller: str, sent: JSON, made: JSON) -> int:
        """Record the creation of an object; return the number of the change."""
        now = self.clock.monotonic()
        entry = Entry(target, str(made.get("kind", "")))
        entry.creation = Creation(controller, now, sent, made, made)
        return self.creations.add(entry, made)

    def write(self, target: Target, controller: str, real: JSON, new: JSON) -> int:
        """Record the new state of an object; return the number of the change.

        `real` is the object on the server, `new` the view of it after the write.
        """
        entry = self.entries.get(target.key)
        if entry is not None and entry.creation is not None:
            entry.creation.current = new
        else:
            entry = entry or Entry(target.whole, str(new.get("kind", "")))
            entry.real = real
            self._set_fields(entry, controller, new)
        if entry.is_confirmed:
            self.entries.remove(entry)
            return self.entries.show_real(entry.key, real)
        self.entries.put(entry)
        return self.entries.show(entry, real)

    def delete(self, target: Target, deletion: Deletion, real: JSON | None) -> int:
        """Record the deletion of an object; return the number of the change."""
        entry = self.entries.get(target.key)
        if entry is not None and entry.creation is not None:
            # Created and deleted by the preview: there is nothing to confirm.
            self.entries.remove(entry)
            made = entry.creation.current
            return self.changes.publish(entry.key, None, made)
        kind = str((real or {}).get("kind", ""))
        entry = entry or Entry(target.whole, kind, real)
        entry.deletion = entry.deletion or deletion
        self.entries.put(entry)
        number = self.entries.show(entry, real or {})
        if self._ledger.take_ended(owner_of(target, real or {})):
            self._findings.confirm(deletion.controller, kind)
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

    # Changes on the server.

    def observe(self, target: Target, obj: JSON, *, is_new: bool = False) -> None:
        """Compare an object of the server with the writes to it.

        With `is_new` the object has just been added: it may match a creation.
        """
        metadata = obj.get("metadata", {})
        if metadata.get("deletionTimestamp"):
            self._ended(target, obj)
        elif is_new and self._is_recent(metadata):
            self.creations.observe_new(target, obj)
        entry = self.entries.get(target.key)
        if entry is None:
            return
        if entry.creation is not None:
            self.creations.realise(entry, target, obj)
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
                self._findings.confirm(written.controller, entry.kind)
            self.entries.remove(entry)

    def _drop_namespace(self, namespace: str) -> None:
        for entry in self.entries:
            if entry.target.namespace == namespace:
                self.entries.remove(entry)
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
                self._findings.confirm(written.controller, entry.kind)
                del entry.fields[path]
            elif value_at(obj, path) != value_at(former, path):
                is_contradicted = True
        if is_contradicted:
            # Another writer has decided since: let the controller decide again.
            entry.fields.clear()
        if entry.is_confirmed:
            self.entries.remove(entry)

    def _ended(self, target: Target, obj: JSON) -> None:
        """Confirm a deletion, of this object or of another one of the same owner."""
        if target.collection.plural == "namespaces" and not target.collection.group:
            self._ending[target.name] = None
            self._ending.move_to_end(target.name)
            if len(self._ending) > _KEPT:
                self._ending.popitem(last=False)
        entry = self.entries.get(target.key)
        uid = str(obj.get("metadata", {}).get("uid", ""))
        is_first = self._ledger.is_first(f"end {uid}")
        if entry is not None and entry.deletion is not None:
            self._findings.confirm(entry.deletion.controller, entry.kind)
            entry.deletion = None
            if entry.is_confirmed:
                self.entries.remove(entry)
            return
        owner = owner_of(target, obj)
        if not is_first or not owner.uid:
            return
        for other in self.entries:
            if other.deletion is not None and owner == owner_of(
                other.target, other.real or {}
            ):
                # The two managers chose different objects of the same owner.
                self._findings.confirm(other.deletion.controller, other.kind)
                other.deletion = None
                self._settle(other)
                return
        self._ledger.add_ended(uid, owner)

    def _settle(self, entry: Entry) -> None:
        """Show an entry whose deletion is confirmed by that of another object."""
        real = entry.real or {}
        if entry.is_confirmed:
            self.entries.remove(entry)
            self.entries.show_real(entry.key, real)
        else:
            self.entries.show(entry, real)

    def _is_recent(self, metadata: JSON) -> bool:
        try:
            created = parse_time(str(metadata.get("creationTimestamp", "")))
        except ValueError:
            return False
        age = (self.clock.now() - created).total_seconds()
        return age <= 2 * self.settings.grace
