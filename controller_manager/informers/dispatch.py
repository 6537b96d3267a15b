"""The dispatcher: calls those handlers of a resource that a change concerns."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from controller_manager.api.meta import KubeObject, controller_of

from .changes import ALL_PARTS, Comparison, DependsOn
from .store import Store

ObjectT = TypeVar("ObjectT", bound=KubeObject)

_NO_OWNER: Final = ""
_OTHER_KIND: Final = "*"
"""Stands for all kinds of owners that no handler has named."""

_MAX_TABLES: Final = 1024
"""The number of combinations of parts that are remembered, before all are forgotten."""


def ignore(*_: object) -> None:
    """Do nothing about a change."""


@dataclass(frozen=True, slots=True)
class Handler(Generic[ObjectT]):
    """Functions that an informer calls for changes; they usually enqueue keys.

    For each event the store changes first; then the handlers run, in the order in
    which they were added. They must not block. `on_update` is also called at each
    resync, with the same object twice. `on_delete` gets the last known state of the
    object, also if the watch missed the deletion itself.

    With `depends_on`, `on_update` is called only if one of these parts has changed, and
    at each resync. With `owner_kind`, the handler is called only for objects whose
    managing owner is of this kind, or that have no managing owner. Of an update, either
    version counts.

    >>> gone = []
    >>> Handler(on_delete=gone.append).on_delete(website)
    >>> [each.metadata.name for each in gone]
    ['shop']
    """

    on_add: Callable[[ObjectT], None] = ignore
    on_update: Callable[[ObjectT, ObjectT], None] = ignore
    on_delete: Callable[[ObjectT], None] = ignore
    depends_on: DependsOn | None = None
    owner_kind: str = ""


class Registration(Generic[ObjectT]):
    """A handler of an informer, and the objects whose `on_add` it has not got yet.

    Upstream: client-go's ResourceEventHandlerRegistration, with HasSynced.
    """

    def __init__(
        self, handler: Handler[ObjectT], store: Store[ObjectT], synced: asyncio.Event
    ) -> None:
        """Make all objects of the store pending; called by the informer."""
        self.handler = handler
        # Keys are popped from the end, so this order gives the oldest object first.
        self._pending = dict.fromkeys(reversed(store.keys()))
        self._informer_synced = synced
        self._replayed = asyncio.Event()
        self._set_replayed_if_empty()

    def _set_replayed_if_empty(self) -> None:
        if not self._pending:
            self._replayed.set()

    @property
    def has_pending(self) -> bool:
        """True as long as the handler has not been called for all objects."""
        return bool(self._pending)

    @property
    def is_synced(self) -> bool:
        """True once the handler has been called for the first complete list."""
        return self._informer_synced.is_set() and self._replayed.is_set()

    async def wait_for_sync(self) -> None:
        """Wait until `is_synced`."""
        await self._informer_synced.wait()
        await self._replayed.wait()

    def pop_pending(self) -> str | None:
        """Return the next pending key, which is then not pending; `None` for none."""
        if not self._pending:
            return None
        key, _ = self._pending.popitem()
        self._set_replayed_if_empty()
        return key

    def discard_pending(self, key: str) -> bool:
        """Make `key` not pending; tell whether it was."""
        if key not in self._pending:
            return False
        del self._pending[key]
        self._set_replayed_if_empty()
        return True

    def clear(self) -> None:
        """Make no key pending."""
        self._pending.clear()
        self._set_replayed_if_empty()


Report = Callable[[Callable[..., None], Exception, Any], None]
"""Reports the exception of a handler's function, and the object that it is about."""


class Dispatcher(Generic[ObjectT]):
    """Calls the handlers of one informer, in the order in which they were added.

    For each combination of changed parts and kinds of owners, it finds the handlers to
    call once, and remembers them. A handler that fails does not stop the others.
    """

    def __init__(self, comparison: Comparison, report: Report) -> None:
        self._comparison = comparison
        self._report = report
        self._registrations: list[Registration[ObjectT]] = []
        self._bits: dict[Registration[ObjectT], int] = {}
        self._forget_tables()

    @property
    def registrations(self) -> Sequence[Registration[ObjectT]]:
        """All registrations, in their order."""
        return tuple(self._registrations)

    def add(self, registration: Registration[ObjectT]) -> None:
        """Call the handler of a registration from now on.

        Raises ValueError if the objects lack a part on which it depends.
        """
        depends_on = registration.handler.depends_on
        bits = ALL_PARTS
        if depends_on is not None:
            bits = self._comparison.bits_of(depends_on)
        self._bits[registration] = bits
        self._registrations.append(registration)
        self._forget_tables()

    def remove(self, registration: Registration[ObjectT]) -> None:
        """Stop calling the handler of a registration."""
        self._registrations.remove(registration)
        del self._bits[registration]
        self._forget_tables()

    def _forget_tables(self) -> None:
        self._kinds = frozenset(
            each.handler.owner_kind
            for each in self._registrations
            if each.handler.owner_kind
        )
        self._asked = 0
        for bits in self._bits.values():
            if bits != ALL_PARTS:
                self._asked |= bits
        self._replaying = [each for each in self._registrations if each.has_pending]
        self._adds: dict[str, tuple[Callable[[ObjectT], None], ...]] = {}
        self._deletes: dict[str, tuple[Callable[[ObjectT], None], ...]] = {}
        self._updates: dict[
            tuple[str, str, int], tuple[Callable[[ObjectT, ObjectT], None], ...]
        ] = {}

    def _kind_of(self, obj: ObjectT) -> str:
        """Return the kind of the owner that manages an object, as handlers name it."""
        if not self._kinds:
            return _NO_OWNER
        owner = controller_of(obj)
        if owner is None:
            return _NO_OWNER
        return owner.kind if owner.kind in self._kinds else _OTHER_KIND

    # The handlers that a change concerns.

    def concerns(self, handler: Handler[ObjectT], obj: ObjectT) -> bool:
        """Tell whether a handler is to be called for an object, by its owner."""
        return _wants(handler, self._kind_of(obj))

    def _adding(self, kind: str) -> tuple[Callable[[ObjectT], None], ...]:
        if (found := self._adds.get(kind)) is None:
            found = self._adds[kind] = tuple(
                each.handler.on_add
                for each in self._registrations
                if each.handler.on_add is not ignore and _wants(each.handler, kind)
            )
        return found

    def _deleting(self, kind: str) -> tuple[Callable[[ObjectT], None], ...]:
        if (found := self._deletes.get(kind)) is None:
            found = self._deletes[kind] = tuple(
                each.handler.on_delete
                for each in self._registrations
                if each.handler.on_delete is not ignore and _wants(each.handler, kind)
            )
        return found

    def _updating(
        self, old: ObjectT, new: ObjectT, changed: int
    ) -> tuple[Callable[[ObjectT, ObjectT], None], ...]:
        after = self._kind_of(new)
        is_same = old.metadata.owner_references is new.metadata.owner_references
        before = after if is_same else self._kind_of(old)
        if changed != ALL_PARTS:
            changed &= self._asked
        table = before, after, changed
        if (found := self._updates.get(table)) is None:
            if len(self._updates) >= _MAX_TABLES:
                self._updates.clear()
            found = self._updates[table] = tuple(
                each.handler.on_update
                for each in self._registrations
                if each.handler.on_update is not ignore
                and self._is_concerned(each, before, after, changed)
            )
        return found

    def _is_concerned(
        self, registration: Registration[ObjectT], before: str, after: str, changed: int
    ) -> bool:
        bits, handler = self._bits[registration], registration.handler
        if not (ALL_PARTS in (changed, bits) or bits & changed):
            return False
        return _wants(handler, before) or _wants(handler, after)

    # Calling them.

    def added(self, obj: ObjectT) -> None:
        """Call the handlers for a new object."""
        for function in self._adding(self._kind_of(obj)):
            self._call(function, obj)

    def updated(self, key: str, old: ObjectT, new: ObjectT, changed: int) -> None:
        """Call the handlers for a new version; `changed` are the changed parts.

        A handler that has not got the object yet gets it as a new one.
        """
        if self._replaying:
            self.updated_for(self.registrations, key, old, new, changed)
            return
        for function in self._updating(old, new, changed):
            try:
                function(old, new)
            except Exception as error:  # noqa: BLE001 - of one controller only
                self._report(function, error, new)

    def deleted(self, key: str, obj: ObjectT) -> None:
        """Call the handlers for a deleted object, unless they have not got it yet."""
        if self._replaying:
            self.deleted_for(self.registrations, key, obj)
            return
        for function in self._deleting(self._kind_of(obj)):
            self._call(function, obj)

    def replayed(self, registration: Registration[ObjectT], obj: ObjectT) -> None:
        """Call one handler for an object that was there before it."""
        if self.concerns(registration.handler, obj):
            self._call(registration.handler.on_add, obj)

    def updated_for(
        self,
        registrations: Sequence[Registration[ObjectT]],
        key: str,
        old: ObjectT,
        new: ObjectT,
        changed: int,
    ) -> None:
        """Call the handlers of some registrations for a new version."""
        before, after = self._kind_of(old), self._kind_of(new)
        for each in registrations:
            if each.discard_pending(key):
                self.replayed(each, new)
            elif self._is_concerned(each, before, after, changed):
                self._call(each.handler.on_update, old, new)
        self._prune_replaying()

    def deleted_for(
        self, registrations: Sequence[Registration[ObjectT]], key: str, obj: ObjectT
    ) -> None:
        """Call the handlers of some registrations for a deleted object."""
        for each in registrations:
            if not each.discard_pending(key) and self.concerns(each.handler, obj):
                self._call(each.handler.on_delete, obj)
        self._prune_replaying()

    def added_for(
        self, registrations: Sequence[Registration[ObjectT]], obj: ObjectT
    ) -> None:
        """Call the handlers of some registrations for a new object."""
        for each in registrations:
            self.replayed(each, obj)

    def _prune_replaying(self) -> None:
        self._replaying = [each for each in self._replaying if each.has_pending]

    def _call(self, function: Callable[..., None], *objects: ObjectT) -> None:
        try:
            function(*objects)
        except Exception as error:  # noqa: BLE001 - it concerns one controller only
            self._report(function, error, objects[-1])


def _wants(handler: Handler[Any], kind: str) -> bool:
    return not handler.owner_kind or kind in (_NO_OWNER, handler.owner_kind)
