"""The rules for conditions of the type metav1.Condition (meta/v1/validation)."""

import re
from collections.abc import Iterator
from typing import Final

from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown

from .text import table

_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_TEXT: Final = (
    "a condition reason must start with alphabetic character, optionally followed by "
    "a string of alphanumeric characters or '_,:', and must end with an alphanumeric "
    "character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or "
    "'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    f"'{_REASON.pattern}')"
)


def _reason(reason: str, field: str) -> Iterator[Cause]:
    if not _REASON.fullmatch(reason):
        yield invalid(field, shown(reason), _REASON_TEXT)


CONDITIONS: Final = table(
    """
    conditions[]:
      type: unique pointer
      type: qualified default empty
      status: enum False True Unknown default empty
      observedGeneration: not-negative "must be greater than or equal to zero"
      lastTransitionTime: required "must be set"
      reason: required "must be set"
      reason: reason
      reason: longest 1024
      message: longest 32768
    """,
    _reason,
)
"""The conditions of a status."""
