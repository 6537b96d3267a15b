"""The work of the subcommand ``devcluster``: runs a cluster, takes its snapshot."""

import asyncio
import gc
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from rich.console import Console

from controller_manager.cli.failure import CommandNotRun
from controller_manager.client.identity.credentials import from_kubeconfig
from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.devcluster import snapshot
from controller_manager.devcluster.cluster import (
    DevCluster,
    Prepared,
    check_kubeconfig,
    controllers_over_https,
    remove_kubeconfig,
)
from controller_manager.devcluster.manifests import Manifest, parted, read_manifests
from controller_manager.devcluster.settings import Settings
from controller_manager.devcluster.storage import Storage, load, restore, state_of
from controller_manager.observability.defects import log_loop_errors
from controller_manager.observability.logs import Logger
from controller_manager.version import COMMAND_USER_AGENT

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


def _check_command(command: Sequence[str]) -> None:
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
        _check_command(command)
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


# Takes and restores snapshots: of a running cluster, and of a data file.

_PATIENCE: Final = 600.0
"""Seconds that a large cluster may take."""

_OK: Final = 200
_NOT_FOUND: Final = 404


async def snapshot_of_cluster(kubeconfig: Path, file: Path) -> int:
    """Write the state of a running cluster; return the number of its objects.

    Raises DataError; then an old file stays.
    """
    async with _connection(kubeconfig) as transport:
        answer = await transport.stream(
            Request("GET", snapshot.PATH, timeout=_PATIENCE)
        )
        try:
            if answer.status != _OK:
                body = b"".join([piece async for piece in answer.chunks()])
                raise _refused(transport, answer.status, body)
            with snapshot.replaced(file) as draft:
                async for piece in answer.chunks():
                    draft.write(piece)
        finally:
            await answer.close()
    return snapshot.read_snapshot(file).count


def snapshot_of_data(data: Path, file: Path) -> int:
    """Write the state in a data file; return the number of objects.

    Raises DataError.
    """
    if not data.exists():
        raise snapshot.DataError(f"{data}: there is no such file")
    with snapshot.DataFile.open(data) as opened:
        state = opened.state()
    snapshot.write_snapshot(file, state)
    return state.count


async def restore_cluster(
    kubeconfig: Path, file: Path, *, keeps_watches: bool = False
) -> int:
    """Restore a snapshot in a running cluster; return the number of objects.

    Watches end with 410, unless it `keeps_watches`. Raises DataError.
    """
    # A part of a snapshot is told before anything is sent.
    text, count = snapshot.read_text(file), snapshot.read_snapshot(file).count
    headers = {"content-type": snapshot.MEDIA_TYPE}
    query = (snapshot.KEEP_WATCHES,) if keeps_watches else ()
    request = Request("PUT", snapshot.PATH, query, headers, text, _PATIENCE)
    async with _connection(kubeconfig) as transport:
        answer = await transport.request(request)
        if answer.status != _OK:
            raise _refused(transport, answer.status, answer.body)
    return count


def restore_data(data: Path, file: Path) -> int:
    """Restore a snapshot in a data file; return the number of objects.

    Versions continue from those of the file. Raises DataError, and then the file has
    not changed.
    """
    state, storage = snapshot.read_snapshot(file), Storage()
    with snapshot.DataFile.open(data) as opened:
        load(storage, opened.state())
        restore(storage, state, ends_watches=True)
        opened.write(state_of(storage), is_final=True)
    return state.count


@asynccontextmanager
async def _connection(kubeconfig: Path) -> AsyncIterator[HTTPTransport]:
    """Yield a transport to a cluster; raises DataError for all its failures."""
    try:
        credentials = from_kubeconfig(str(kubeconfig), "", SystemClock())
    except ConfigError as error:
        raise snapshot.DataError(str(error)) from error
    transport = HTTPTransport(credentials, COMMAND_USER_AGENT)
    try:
        yield transport
    except (ConfigError, TransportError) as error:
        raise snapshot.DataError(f"{kubeconfig}: {error}") from error
    finally:
        await transport.close()


def _refused(transport: HTTPTransport, status: int, body: bytes) -> snapshot.DataError:
    if status == _NOT_FOUND:
        return snapshot.DataError(
            f"{transport.host}: is not a development cluster of this version: it has "
            f"no path {snapshot.PATH}"
        )
    message = body.decode(errors="replace").strip()
    with suppress(msgspec.DecodeError, KeyError, TypeError):
        message = msgspec.json.decode(body)["message"]
    return snapshot.DataError(f"{transport.host}: answered {status}: {message}")
