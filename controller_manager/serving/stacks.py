"""The stacks of asyncio tasks and of threads, as text.

The path is that of the same page of Go's net/http/pprof. Upstream: --profiling.
"""

import asyncio
import sys
import threading
import traceback
from contextlib import aclosing
from typing import Any

from .main_loop import MainLoop, MainLoopBusy, SameLoop
from .streaming import AskedPieces, Pieces, in_main


async def stacks_of(main: MainLoop) -> AskedPieces:
    """Return the tasks of the main loop, those of the server's loop, and all threads.

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
    for piece in threads():
        yield piece


def tasks() -> Pieces:
    """Return every task of this loop with the stack on which it waits, task by task."""
    found = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    yield f"{len(found)} tasks\n\n".encode()
    for task in found:
        yield _piece(f"task {task.get_name()}:", _entries_of_task(task))


def threads() -> Pieces:
    """Return every thread with its stack, thread by thread."""
    found = sorted(threading.enumerate(), key=lambda thread: thread.name)
    yield f"{len(found)} threads\n\n".encode()
    for thread in found:
        yield _piece(f"thread {thread.name}:", _entries_of_thread(thread))


# A page waits for a slow client at each yield. No frame is held there, for it would
# hold all variables of its function.


def _entries_of_task(task: asyncio.Task[Any]) -> list[str]:
    return [
        entry
        for frame in task.get_stack()
        for entry in traceback.extract_stack(frame, 1).format()
    ]


def _entries_of_thread(thread: threading.Thread) -> list[str]:
    frames = sys._current_frames()  # noqa: SLF001 - the documented way to other stacks
    frame = frames.get(thread.ident or 0)
    return traceback.format_stack(frame) if frame is not None else []


def _piece(title: str, entries: list[str]) -> bytes:
    lines = [f"  {line}" for each in entries for line in each.rstrip().split("\n")]
    return "\n".join([title, *lines, "", ""]).encode()
