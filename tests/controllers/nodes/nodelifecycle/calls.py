"""Counts the calls of this build's functions: a cost that no machine changes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import controller_manager

_PACKAGE: Final = Path(controller_manager.__file__).parent
_SERVER: Final = _PACKAGE / "devcluster"


class Calls:
    """The numbers of calls of the manager's functions, without the server's."""

    def __init__(self) -> None:
        self.count = 0
        self._counted: dict[CodeType, bool] = {}

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Count an event of `sys.setprofile`."""
        if event != "call":
            return
        code = frame.f_code
        counts = self._counted.get(code)
        if counts is None:
            path = Path(code.co_filename)
            counts = _PACKAGE in path.parents and _SERVER not in path.parents
            self._counted[code] = counts
        self.count += counts


@contextmanager
def counted_calls() -> Iterator[Calls]:
    """Count calls while entered."""
    calls = Calls()
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
