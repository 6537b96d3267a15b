"""Counts the steps of a piece of code: a cost that no machine changes."""

import gc
import sys
from collections.abc import Generator
from types import FrameType
from typing import Any, Self, TypeVar

ResultT = TypeVar("ResultT")


class Steps:
    """Counts the lines of code that run while it is entered.

    No garbage is collected meanwhile: finalizers of other tests' objects would count.
    """

    def __init__(self) -> None:
        self.number = 0

    def __enter__(self) -> Self:
        self._collects = gc.isenabled()
        gc.disable()
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        if self._collects:
            gc.enable()

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        del frame, arg
        self.number += event == "line"
        return self._trace


def parts_of(work: Generator[None, None, ResultT]) -> tuple[ResultT, list[int]]:
    """Run work that yields after each part; return its result and the steps of each."""
    numbers: list[int] = []
    while True:
        with Steps() as steps:
            try:
                next(work)
            except StopIteration as stop:
                result: ResultT = stop.value
                return result, numbers
            finally:
                numbers.append(steps.number)
