"""Conditions of objects: the form that newer kinds share, and searches in all forms.

Pods, nodes, jobs, claims and deployments have conditions with fields of their own.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from msgspec.structs import replace

from .meta import APIStruct


class Condition(APIStruct, frozen=True):
    """One condition; the API requires a reason and a message, which may be empty."""

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class TypedCondition(Protocol):
    """A condition of any form."""

    @property
    def type(self) -> str:
        """The type, which only one condition of an object has."""

    @property
    def status(self) -> str:
        """True, False or Unknown."""


ConditionT = TypeVar("ConditionT", bound=TypedCondition)


def find_condition(
    conditions: Iterable[ConditionT] | None, name: str
) -> ConditionT | None:
    """Return the condition of a type, `None` if there is none (FindStatusCondition)."""
    for each in conditions or ():
        if each.type == name:
            return each
    return None


def true_condition(
    conditions: Iterable[ConditionT] | None, name: str
) -> ConditionT | None:
    """Return the condition of a type if its status is True, else `None`."""
    found = find_condition(conditions, name)
    return found if found is not None and found.status == "True" else None


def with_condition(
    conditions: tuple[Condition, ...] | None, new: Condition
) -> tuple[Condition, ...]:
    """Return the conditions with `new` in the place of the one of its type.

    The time of the transition stays if the status does (SetStatusCondition).
    """
    old = find_condition(conditions, new.type)
    if old is None:
        return (*(conditions or ()), new)
    if old.status == new.status and old.last_transition_time:
        new = replace(new, last_transition_time=old.last_transition_time)
    return tuple(new if each is old else each for each in conditions or ())
