"""Runs a cluster for the subcommand ``devcluster``, alone or around a program."""

import asyncio
import gc
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console

from controller_manager.cli.failure import CommandNotRun
from controller_manager.clock import SystemClock
from controller_manager.devcluster.cluster import (
    DevCluster,
    Prepared,
    check_kubeconfig,
    controllers_over_https,
    remove_kubeconfig,
)
from controller_manager.devcluster.manifests import Manifest, parted, read_manifests
from controller_manager.devcluster.settings import Settings
from controller_manager.observability.defects import log_loop_errors
from controller_manager.observability.logs import Logger

# The program, with which the cluster ends

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


def check_command(command: Sequence[str]) -> None:
    """Check that a program can be found and run; raises CommandNotRun."""
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
    raise CommandNotRun([msg])


async def run_command(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program until it ends; return its exit code as a shell shows it.

    It has our standard input and output. We pass signals on to it. Signals from the
    keyboard reach it from the terminal, if it is in the foreground with us.
    Raises CommandNotRun.
    """
    with _caught_signals() as signals:
        try:
            process = await asyncio.create_subprocess_exec(*command, env=environment)
        except OSError as error:
            msg = f"{command[0]}: cannot be run: {error.strerror}"
            raise CommandNotRun([msg]) from error
        passing = asyncio.create_task(_pass_on(signals, process))
        try:
            code = await process.wait()
        finally:
            passing.cancel()
            await asyncio.gather(passing, return_exceptions=True)
    return code if code >= 0 else _KILLED - code


@contextmanager
def _caught_signals() -> Iterator["asyncio.Queue[signal.Signals]"]:
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


# The cluster


async def run_devcluster(
    settings: Settings,
    prepared: Prepared,
    logger: Logger,
    *,
    kubeconfig: Path | None,
    command: Sequence[str] = (),
) -> int:
    """Run a cluster with the objects of its manifests; return an exit code.

    The controllers start once the objects exist; only pods wait for the controllers.
    It runs until it is interrupted. With a `command` it runs until the command ends:
    the command has the kubeconfig in KUBECONFIG, and only the command prints. Raises
    CommandNotRun, ManifestError and KubeconfigError, before anything runs, if the
    program does not exist, or a file cannot be read or written.
    """
    console = Console(stderr=True, quiet=bool(command))
    log_loop_errors(logger)
    if command:
        check_command(command)
    if kubeconfig is not None:
        check_kubeconfig(kubeconfig)
    before, after = parted(read_manifests([*map(Path, settings.manifests)]))

    def report(manifest: Manifest) -> None:
        console.print(f"{manifest.kind.singular}/{manifest.name} created")

    async with AsyncExitStack() as stack:
        stack.enter_context(_rare_collections())
        cluster = await stack.enter_async_context(
            DevCluster(prepared.options, SystemClock(), logger)
        )
        if kubeconfig is not None:
            # Only once we listen: a cluster that has our port may own the file.
            remove_kubeconfig(kubeconfig)
        console.print(f"API server at {cluster.url}", highlight=False)
        await cluster.create(before, report)
        if settings.controllers:
            await stack.enter_async_context(
                controllers_over_https(cluster, prepared.config, logger)
            )
        await cluster.create(after, report)
        if command:
            return await _run_command(cluster, command, kubeconfig, stack)
        await _run_until_interrupted(cluster, kubeconfig, stack, console)
    return 0


async def _run_command(
    cluster: DevCluster,
    command: Sequence[str],
    kubeconfig: Path | None,
    stack: AsyncExitStack,
) -> int:
    if kubeconfig is None:
        directory = stack.enter_context(TemporaryDirectory(prefix="devcluster-"))
        kubeconfig = Path(directory) / "kubeconfig"
    cluster.write_kubeconfig(kubeconfig)
    stack.callback(kubeconfig.unlink, missing_ok=True)
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig.absolute())}
    return await run_command(command, environment)


async def _run_until_interrupted(
    cluster: DevCluster,
    kubeconfig: Path | None,
    stack: AsyncExitStack,
    console: Console,
) -> None:
    # Entered before the file is written, so that the file is always removed.
    interrupted = _interrupt_event()
    if kubeconfig is not None:
        cluster.write_kubeconfig(kubeconfig)
        stack.callback(kubeconfig.unlink, missing_ok=True)
        console.print(
            f"kubectl --kubeconfig {kubeconfig} get deployments\n"
            f"controller-manager explain --kubeconfig {kubeconfig} --all",
            highlight=False,
        )
    console.print("Running; Ctrl-C stops it.", highlight=False)
    await interrupted.wait()
    console.print("Stopping.", highlight=False)


def _interrupt_event() -> asyncio.Event:
    """Return an event that is set when the program is interrupted."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


_THRESHOLDS: Final = (20_000, 1, 25)
"""Python's are 700, 10, 10: it would look at all objects seven times as often.

Every second collection takes the objects of the last one, too. So it looks at a new
object once or twice, and at none for long.
"""


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often while entered, in a process that stores objects.

    Stored objects stay, and have no cycles. The search for garbage among them took a
    seventh of the CPU time in which pods were created.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
