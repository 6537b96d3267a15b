"""Conditions of the form that newer kinds share (metav1.Condition)."""

from collections.abc import Iterable

from msgspec.structs import replace

from controller_manager.api.meta import APIStruct


class Condition(APIStruct, frozen=True):
    """One condition; the API requires a reason and a message, which may be empty."""

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


def find_condition(
    conditions: Iterable[Condition] | None, name: str
) -> Condition | None:
    """Return the condition of a type, `None` if there is none (FindStatusCondition)."""
    return next((each for each in conditions or () if each.type == name), None)


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
