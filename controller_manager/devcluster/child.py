"""The program that a development cluster runs, and with which the cluster ends."""

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PASSED_ON: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_FROM_THE_KEYBOARD: Final = frozenset((signal.SIGINT, signal.SIGQUIT))
_KILLED: Final = 128
"""A shell shows that signal N ended a program as this plus N."""


class CommandError(Exception):
    """A program cannot be run; the message names the program and the reason."""


def check_command(command: Sequence[str]) -> None:
    """Check that a program can be found and run; raises CommandError."""
    program = command[0]
    if shutil.which(program) is not None:
        return
    if "/" not in program:
        why = "there is no program of that name on the PATH"
    elif Path(program).exists():
        why = "it is not an executable file"
    else:
        why = "there is no such file"
    msg = f"{program}: cannot be run: {why}"
    raise CommandError(msg)


async def run_command(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program until it ends; return its exit code as a shell shows it.

    It has our standard input and output. We pass signals on to it. Signals from the
    keyboard reach it from the terminal, if it is in the foreground with us.
    Raises CommandError.
    """
    with _caught_signals() as signals:
        try:
            process = await asyncio.create_subprocess_exec(*command, env=environment)
        except OSError as error:
            msg = f"{command[0]}: cannot be run: {error.strerror}"
            raise CommandError(msg) from error
        passing = asyncio.create_task(_pass_on(signals, process))
        try:
            code = await process.wait()
        finally:
            passing.cancel()
            await asyncio.gather(passing, return_exceptions=True)
    return code if code >= 0 else _KILLED - code


@contextmanager
def _caught_signals() -> Iterator["asyncio.Queue[signal.Signals]"]:
    """Collect the signals that arrive while entered."""
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in _PASSED_ON:
        loop.add_signal_handler(number, signals.put_nowait, number)
    try:
        yield signals
    finally:
        for number in _PASSED_ON:
            loop.remove_signal_handler(number)


async def _pass_on(
    signals: "asyncio.Queue[signal.Signals]", process: asyncio.subprocess.Process
) -> None:
    while True:
        number = await signals.get()
        if number in _FROM_THE_KEYBOARD and _is_in_foreground():
            continue  # the terminal has sent it to the program as well
        with suppress(ProcessLookupError):  # it has just ended
            process.send_signal(number)


def _is_in_foreground() -> bool:
    """Tell whether a key like Ctrl-C reaches our process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False  # no terminal
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)
