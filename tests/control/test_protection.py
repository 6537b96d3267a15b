"""Objects have a finalizer until they are deleted and unused: pure functions."""

from typing import Any

import pytest

from controller_manager.api.meta import PartialMetadata, PartialObject
from controller_manager.control.protection import Protection

DELETED = "2026-01-01T00:00:00Z"
FINALIZER = "example.com/protection"


def thing(**metadata: Any) -> PartialObject:
    """Return an object with this metadata."""
    return PartialObject(metadata=PartialMetadata(name="thing", **metadata))


@pytest.mark.parametrize(
    ("changed", "settled", "finalizers"),
    [
        (thing(), False, (FINALIZER,)),
        (thing(finalizers=("a",)), False, ("a", FINALIZER)),
        (thing(finalizers=(FINALIZER,)), True, (FINALIZER,)),
        (thing(finalizers=("a", FINALIZER), deletion_timestamp=DELETED), False, ("a",)),
        (thing(finalizers=(FINALIZER,), deletion_timestamp=DELETED), False, ()),
        (thing(finalizers=("a",), deletion_timestamp=DELETED), True, ("a",)),
        (thing(deletion_timestamp=DELETED), True, ()),
    ],
)
def test_an_object_has_the_finalizer_until_it_is_deleted(
    changed: PartialObject, finalizers: tuple[str, ...], *, settled: bool
) -> None:
    """Other finalizers stay, in their order."""
    protection = Protection(FINALIZER)
    assert protection.is_settled(changed) is settled
    assert protection.finalizers_of(changed) == finalizers


@pytest.mark.parametrize(
    ("changed", "is_held"),
    [
        (thing(finalizers=(FINALIZER,)), False),
        (thing(finalizers=("a", FINALIZER), deletion_timestamp=DELETED), True),
        (thing(finalizers=("a",), deletion_timestamp=DELETED), False),
    ],
)
def test_a_deleted_object_with_the_finalizer_is_held(
    changed: PartialObject, *, is_held: bool
) -> None:
    """Only such an object is looked at when something stops using it."""
    assert Protection(FINALIZER).holds(changed) is is_held
