"""The result of a validation: causes, and the number of checks."""

from typing import Any, Final

from controller_manager.devcluster.scheme.statuses import Cause, shown

_NOWHERE: Final = "<nil>"
"""The text that Go prints for an error without a path."""


class Result:
    """The causes that a validation has found.

    `matches` counts the checks that applied. If a value fits none of several schemas,
    the message comes from the schema with the most matches.
    """

    __slots__ = ("causes", "matches")

    def __init__(self, *causes: Cause) -> None:
        self.causes = list(causes)
        self.matches = 0

    @property
    def is_valid(self) -> bool:
        """Tell whether the value has no errors."""
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
    """Return the cause for a value that breaks a combination of schemas.

    As upstream's, the cause has no path. `base` is the path of the whole value.
    """
    text = f'Invalid value: "": {detail}'
    return Cause("FieldValueInvalid", base or _NOWHERE, text)
