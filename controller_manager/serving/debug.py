"""The pages below /debug/pprof/: tasks, CPU profile, memory.

The paths are those of Go's net/http/pprof. The CPU profile has pprof's format. The
other answers are text, because they show data of Python. Upstream: --profiling.
"""

import asyncio
import gc
import sys
import threading
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, TypeVar

from controller_manager.serving import pprof
from controller_manager.serving.main_loop import MainLoop, MainLoopBusy, SameLoop
from controller_manager.serving.sampling import (
    PERIOD_NANOSECONDS,
    Samples,
    quick_switches,
    sample,
)
from controller_manager.serving.streaming import AskedPieces, Pieces, in_main

RenderedT = TypeVar("RenderedT")

MAX_SECONDS: Final = 300.0
_TOP: Final = 60
_DEPTH: Final = 12
_RATE: Final = 1e9 / PERIOD_NANOSECONDS

INDEX: Final = """<html><head><title>/debug/pprof/</title></head><body>
<h1>/debug/pprof/</h1><ul>
<li><a href="goroutine">goroutine</a>: all asyncio tasks with their stacks
<li><a href="profile?seconds=10">profile</a>: a CPU profile of some seconds, for
<code>go tool pprof</code>; <a href="profile?seconds=10&amp;debug=1">as text</a>
<li><a href="heap?seconds=10">heap</a>: objects, and what some seconds allocate
<li><a href="cmdline">cmdline</a>: the command line
</ul></body></html>
"""


class Busy(Exception):  # noqa: N818 - an answer, not an error
    """Another profile is being taken."""


async def tasks_of(main: MainLoop) -> AskedPieces:
    """Return the asyncio tasks of the main loop, then those of the server's loop.

    If the main loop is busy, the stack that keeps it busy stands in the place of its
    tasks.
    """
    try:
        async with aclosing(in_main(main, tasks())) as pieces:
            async for piece in pieces:
                yield piece
    except MainLoopBusy as busy:
        yield f"{busy}, its stack is:\n{main.stack()}\n".encode()
    if not isinstance(main, SameLoop):
        for piece in tasks():
            yield piece


def tasks() -> Pieces:
    """Return every task of this loop with the stack on which it waits, task by task."""
    found = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    yield f"{len(found)} tasks\n\n".encode()
    for task in found:
        lines = [f"task {task.get_name()}:"]
        for frame in task.get_stack():
            lines += [
                "  " + line
                for entry in traceback.extract_stack(frame, 1).format()
                for line in entry.rstrip().split("\n")
            ]
        yield "\n".join([*lines, "", ""]).encode()


class Profiler:
    """Takes one profile at a time."""

    def __init__(self) -> None:
        """Start without a profile."""
        self._lock = asyncio.Lock()
        self._switch_interval = sys.getswitchinterval()

    async def cpu(self, seconds: float) -> bytes:
        """Return a profile of all threads for the next seconds, in pprof's format.

        Raises Busy while another profile is being taken.
        """
        return await self._sampled(seconds, pprof.encode)

    async def cpu_text(self, seconds: float) -> str:
        """Return the same profile as a table of functions; raises Busy as `cpu`."""
        return await self._sampled(seconds, _table)

    async def _sampled(
        self, seconds: float, render: Callable[[Samples], RenderedT]
    ) -> RenderedT:
        """Take samples and render them, both in a thread of its own.

        A caller that is cancelled ends the thread before the next profile begins.
        """
        stop = threading.Event()

        def run() -> RenderedT:
            with quick_switches(self._switch_interval):
                samples = sample(seconds, stop)
            return render(samples)

        async with self._alone():
            running = asyncio.create_task(asyncio.to_thread(run))
            try:
                return await asyncio.shield(running)
            finally:
                stop.set()
                await asyncio.wait([running])

    async def memory(self, seconds: float) -> str:
        """Return which objects are in memory, and what the next seconds allocate.

        With 0 seconds, no allocations are measured. Raises Busy as `cpu` does.
        """
        # In a thread, because a process may have millions of objects.
        types = await asyncio.to_thread(_objects_by_type)
        collections = [each["collections"] for each in gc.get_stats()]
        lines = [
            f"collections by generation: {collections}",
            f"objects that are tracked: {types.total()}",
            f"objects that are frozen: {gc.get_freeze_count()}",
            f"memory blocks: {sys.getallocatedblocks()}",
            "",
            *(f"{count:>10} {name}" for name, count in types.most_common(_DEPTH)),
        ]
        if seconds > 0:
            async with self._alone():
                lines += ["", f"allocated in {seconds:g} s and still held:"]
                lines += await _allocations(seconds)
        return "\n".join([*lines, ""])

    def _alone(self) -> asyncio.Lock:
        if self._lock.locked():
            msg = "another profile is being taken"
            raise Busy(msg)
        return self._lock


def _table(samples: Samples) -> str:
    """Return the functions with the most CPU time of their own."""
    own: Counter[tuple[str, str, int]] = Counter()
    total: Counter[tuple[str, str, int]] = Counter()
    for stack, count in samples.stacks.items():
        functions = [
            (line.function, line.code.co_filename, line.code.co_firstlineno)
            for line in stack.lines
        ]
        own[functions[0]] += count
        total.update(dict.fromkeys(functions, count))
    spent = samples.stacks.total() * PERIOD_NANOSECONDS / 1e9
    lines = [
        f"{samples.duration / 1e9:.1f} s, of which {spent:.2f} s CPU time",
        "",
        " own s  total s  function",
        *(
            f"{own[each] / _RATE:6.2f}  {count / _RATE:7.2f}  {each[0]} "
            f"({each[1]}:{each[2]})"
            for each, count in sorted(
                total.items(), key=lambda found: (-own[found[0]], -found[1], found[0])
            )[:_TOP]
        ),
        "",
    ]
    return "\n".join(lines)


def _objects_by_type() -> Counter[str]:
    return Counter(type(each).__qualname__ for each in gc.get_objects())


async def _allocations(seconds: float) -> list[str]:
    tracemalloc.start()
    try:
        await asyncio.sleep(seconds)
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    return [str(each) for each in snapshot.statistics("lineno")[:_TOP]]
