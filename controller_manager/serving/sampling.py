"""Samples of the stacks on which the threads of this process spend CPU time.

A thread looks at the stacks of all others a hundred times a second, as Go's profile
does. A tracing profiler sees every call, and made all handlers four times slower.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Final, NamedTuple

PERIOD_NANOSECONDS: Final = 10_000_000
"""CPU time of a thread from one sample to the next: a hundred samples a second."""

_DEPTH: Final = 128
"""Frames of a stack that are kept, from the innermost on."""

_SWITCH_SECONDS: Final = 0.0001
"""Seconds that the sampling thread waits before it requests the interpreter's lock.

With Python's 5 ms, most samples would be taken where the event loop waits or writes, as
only there it lets other threads run before it is asked to.
"""


class Line(NamedTuple):
    """One line of a stack."""

    code: CodeType
    module: str
    number: int

    @property
    def function(self) -> str:
        """The name of the function, with its module and class."""
        return f"{self.module}.{self.code.co_qualname}"


class Stack(NamedTuple):
    """The stack of a thread, the innermost line first."""

    thread: str
    lines: tuple[Line, ...]


@dataclass(slots=True)
class Samples:
    """The samples of some seconds; each stands for one period of CPU time."""

    started_at: int
    """Nanoseconds since the epoch."""

    duration: int = 0
    """Nanoseconds, of which not all were CPU time."""

    stacks: Counter[Stack] = field(default_factory=Counter)


def sample(seconds: float, stop: threading.Event) -> Samples:
    """Return samples of the next seconds of all other threads, fewer if `stop` is set.

    Call this in a thread of its own.
    """
    taken = Samples(time.time_ns())
    began = time.perf_counter_ns()
    spent: dict[int, int] = {}
    _take({}, spent)
    while (now := time.perf_counter_ns() - began) < seconds * 1e9:
        # Ticks are counted from the start: the time that a sample takes adds to none.
        until_tick = PERIOD_NANOSECONDS - now % PERIOD_NANOSECONDS
        left = min(until_tick, seconds * 1e9 - now)
        if stop.wait(left / 1e9):
            break
        _take(taken.stacks, spent)
    taken.duration = time.perf_counter_ns() - began
    return taken


def _take(stacks: dict[Stack, int], spent: dict[int, int]) -> None:
    """Add a sample of each thread for each period of CPU time that it has spent.

    `spent` is the CPU time of each thread up to its last sample.
    """
    frames = sys._current_frames()  # noqa: SLF001 - the documented way to other stacks
    own = threading.get_ident()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if thread.ident == own or frame is None or thread.native_id is None:
            continue
        total = _cpu_nanoseconds(thread.native_id)
        if total is None:
            continue
        periods = (total - spent.setdefault(thread.native_id, total)) // (
            PERIOD_NANOSECONDS
        )
        if periods:
            spent[thread.native_id] += periods * PERIOD_NANOSECONDS
            stack = Stack(thread.name, _lines(frame))
            stacks[stack] = stacks.get(stack, 0) + periods


def _lines(frame: FrameType | None) -> tuple[Line, ...]:
    lines: list[Line] = []
    while frame is not None and len(lines) < _DEPTH:
        module = frame.f_globals.get("__name__", "")
        lines.append(Line(frame.f_code, module, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(lines)


def _cpu_nanoseconds(native_id: int) -> int | None:
    """Return the CPU time of a thread, `None` if it has ended.

    Linux numbers the clocks of threads like this, and refuses the clock of a thread
    that is gone. pthread_getcpuclockid would crash the process with such a thread.
    """
    clock = (~native_id << 3) | 0b110
    try:
        return time.clock_gettime_ns(clock)
    except OSError:
        return None


@contextmanager
def quick_switches(interval: float) -> Iterator[None]:
    """Let a waiting thread run soon while entered; `interval` is restored, seconds."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
