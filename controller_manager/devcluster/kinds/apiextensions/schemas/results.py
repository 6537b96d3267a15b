"""What is wrong with a value, and how much of it was looked at."""

from typing import Any, Final

from controller_manager.devcluster.server.statuses import Cause, shown

_NOWHERE: Final = "<nil>"
"""How Go prints the path of an error that has none."""


class Result:
    """The causes that a validation has found.

    `matches` counts the checks that applied: of several schemas that a value misses,
    that with most of them tells what is wrong.
    """

    __slots__ = ("causes", "matches")

    def __init__(self, *causes: Cause) -> None:
        """Take the first causes."""
        self.causes = list(causes)
        self.matches = 0

    @property
    def is_valid(self) -> bool:
        """Whether nothing is wrong."""
        return not self.causes

    def merge(self, other: "Result") -> None:
        """Add the causes and the checks of another result."""
        self.causes += other.causes
        self.matches += other.matches


def wrong_value(field: str, value: Any, detail: str) -> Cause:
    """Return the cause for a value that breaks a rule."""
    text = f"Invalid value: {shown(value)}: {detail}"
    return Cause("FieldValueInvalid", field or _NOWHERE, text)


def wrong_type(field: str, path: str, wanted: str, found: str) -> Cause:
    """Return the cause for a value of a wrong type, or without the right format."""
    detail = f"{path} in body must be of type {wanted}: {shown(found)}"
    text = f"Invalid value: {shown(found)}: {detail}"
    return Cause("FieldValueTypeInvalid", field or _NOWHERE, text)


def no_schema_fits(base: str, detail: str) -> Cause:
    """Return the cause for a value that misses a combination of schemas.

    It has no path of its own, as upstream's. `base` is the path of the whole value.
    """
    text = f'Invalid value: "": {detail}'
    return Cause("FieldValueInvalid", base or _NOWHERE, text)
