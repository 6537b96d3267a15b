"""The pages below /debug/pprof/: tasks, CPU profile, memory.

The paths are those of Go's net/http/pprof. The answers are text, because they show
data of Python. Upstream: --profiling.
"""

import asyncio
import cProfile
import gc
import io
import pstats
import sys
import traceback
import tracemalloc
from collections import Counter
from typing import Final

MAX_SECONDS: Final = 300.0
_TOP: Final = 60
_DEPTH: Final = 12

INDEX: Final = """<html><head><title>/debug/pprof/</title></head><body>
<h1>/debug/pprof/</h1><ul>
<li><a href="goroutine">goroutine</a>: all asyncio tasks with their stacks
<li><a href="profile?seconds=10">profile</a>: a CPU profile of some seconds
<li><a href="heap?seconds=10">heap</a>: objects, and what some seconds allocate
<li><a href="cmdline">cmdline</a>: the command line
</ul></body></html>
"""


class Busy(Exception):  # noqa: N818 - an answer, not an error
    """Another profile is being taken."""


def tasks() -> str:
    """Return every asyncio task with the stack on which it waits."""
    lines = []
    found = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    for task in found:
        lines.append(f"task {task.get_name()}:")
        for frame in task.get_stack():
            lines += [
                "  " + line
                for entry in traceback.extract_stack(frame, 1).format()
                for line in entry.rstrip().split("\n")
            ]
        lines.append("")
    return "\n".join([f"{len(found)} tasks", "", *lines])


class Profiler:
    """Takes one profile at a time."""

    def __init__(self) -> None:
        """Start without a profile."""
        self._lock = asyncio.Lock()

    async def cpu(self, seconds: float) -> str:
        """Return a profile of the event loop's thread for the next seconds.

        Raises Busy while another profile is being taken.
        """
        async with self._alone():
            profile = cProfile.Profile()
            try:
                profile.enable()
            except ValueError as error:
                raise Busy(str(error)) from error
            try:
                await asyncio.sleep(seconds)
            finally:
                profile.disable()
            text = io.StringIO()
            pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(_TOP)
            return text.getvalue()

    async def memory(self, seconds: float) -> str:
        """Return which objects are in memory, and what the next seconds allocate.

        With 0 seconds, no allocations are measured. Raises Busy as `cpu` does.
        """
        types = Counter(type(each).__qualname__ for each in gc.get_objects())
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


async def _allocations(seconds: float) -> list[str]:
    tracemalloc.start()
    try:
        await asyncio.sleep(seconds)
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    return [str(each) for each in snapshot.statistics("lineno")[:_TOP]]
