"""What a reconciler watches, as declarations.

``For`` names the objects that are reconciled, ``Owns`` those that they manage, and
``Maps`` any others, with a function from an object to keys. The informers, the
indexes and the handlers follow from them (see `handlers`). Upstream:
controller-runtime's For, Owns and Watches(EnqueueRequestsFromMapFunc).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from controller_manager.api.meta import KubeObject
from controller_manager.api.resource import Resource

ObjectT = TypeVar("ObjectT", bound=KubeObject)

Change = Literal["add", "update", "delete"]

EVERY_CHANGE: Final[tuple[Change, ...]] = ("add", "update", "delete")


def _always(_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class For(Generic[ObjectT]):
    """The objects that are reconciled: each is a key.

    The key of an object is added when the object is added, changes or is deleted,
    and once for each object when the controller starts. One that `when` says no
    of is left out, unless it is deleted. A key is added `delay` seconds later, if
    there is a delay.
    """

    resource: Resource[ObjectT]
    when: Callable[[ObjectT], bool] = _always
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Owns(Generic[ObjectT]):
    """Objects that the reconciled ones manage, as their owner references say.

    A change of one adds the key of its owner; one that was handed over, those of
    both owners; one that nobody manages, those of all whose selector matches it.
    """

    resource: Resource[ObjectT]


@dataclass(frozen=True, slots=True)
class Maps(Generic[ObjectT]):
    """Objects of which a function tells what keys their changes concern.

    `to_keys` is called with the reconciler and the object; an update calls it for
    the object before and after. `on` has the changes that count.
    """

    resource: Resource[ObjectT]
    to_keys: Callable[[Any, ObjectT], Iterable[str]]
    on: tuple[Change, ...] = EVERY_CHANGE


Watch = For[Any] | Owns[Any] | Maps[Any]
