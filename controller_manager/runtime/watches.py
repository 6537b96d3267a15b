"""Declarations of the resources that a reconciler watches.

``For`` names the objects that are reconciled, ``Owns`` their dependents, and
``Maps`` any other objects, with a function from an object to keys. ``Handles`` has a
handler for what none of them can say. The reconciler makes informers, indexes and
handlers from them. Upstream:
controller-runtime's For, Owns and Watches(EnqueueRequestsFromMapFunc).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.meta import KubeObject, Resource
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.options.config import Config

ObjectT = TypeVar("ObjectT", bound=KubeObject)

Change = Literal["add", "update", "delete"]

EVERY_CHANGE: Final[tuple[Change, ...]] = ("add", "update", "delete")


def _always(_: object) -> bool:
    return True


def _always_changed(_: object, __: object) -> bool:
    return True


class For(Struct, Generic[ObjectT], frozen=True):
    """The objects that are reconciled: each is a key.

    The key of an object is added when the object is added, changes or is deleted,
    and once for each object when the controller starts. `when` is a predicate: an
    object that it rejects is left out, unless it was deleted. A key is added
    `delay` seconds later, except after a deletion. `update_delay` returns the seconds
    for an update; it is called with the reconciler, the old and the new object. It is
    `delay` by default. `delay_from` returns the `delay` for a configuration.
    `when_changed` is a predicate of updates, with the old and the new object: an update
    that it rejects adds no key. `depends_on` names the parts of an object without whose
    change an update adds no key; the predicates are not even called then. A controller
    of nodes rejects heartbeats by it.
    """

    resource: Resource[ObjectT]
    when: Callable[[ObjectT], bool] = _always
    delay: float = 0.0
    delay_from: Callable[[Config], float] | None = None
    update_delay: Callable[[Any, ObjectT, ObjectT], float] | None = None
    when_changed: Callable[[ObjectT, ObjectT], bool] = _always_changed
    depends_on: DependsOn | None = None

    def configured(self, config: Config) -> "For[ObjectT]":
        """Return this with the delay that the configuration asks for."""
        if self.delay_from is None:
            return self
        return replace(self, delay=self.delay_from(config))


class Owns(Struct, Generic[ObjectT], frozen=True):
    """The dependents of the reconciled objects, as owner references say.

    A change of a dependent adds the key of its owner. A change of owner adds the
    keys of both owners. A change of an orphan adds the keys of all objects whose
    selector matches it. A key is added `delay` seconds later: so many changes of an
    object's dependents cause one sync. Without `when_added`, a new dependent that has
    an owner adds no key.
    """

    resource: Resource[ObjectT]
    delay: float = 0.0
    when_added: bool = True


class Maps(Struct, Generic[ObjectT], frozen=True):
    """Other objects, with a function that returns the keys to add for a change.

    `to_keys` is called with the reconciler and the object; an update calls it for
    the old and for the new object. `on` lists the changes that count. `depends_on`
    names the parts without whose change an update adds no key.
    """

    resource: Resource[ObjectT]
    to_keys: Callable[[Any, ObjectT], Iterable[str]]
    on: tuple[Change, ...] = EVERY_CHANGE
    depends_on: DependsOn | None = None


class Handles(Struct, Generic[ObjectT], frozen=True):
    """Other objects, with the handler that a reconciler has for their changes.

    `handler` returns it; it is called with the reconciler, once its workers are made.
    """

    resource: Resource[ObjectT]
    handler: Callable[[Any], Handler[ObjectT]]


Watch = For[Any] | Owns[Any] | Maps[Any] | Handles[Any]
