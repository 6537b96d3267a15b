"""The daemon as a process."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.ports import free_port
from tests.robustness.situation import until

SHORT_LEASE = (
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
)

_ROOT = Path(__file__).parents[2]
_START = 30.0
_STOP = 3.0
_SHOWN = 30


class Daemon:
    """A running daemon; `run_daemon` makes it."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", port: int, log: Path, token: str
    ) -> None:
        self._process = process
        self._log = log
        self._token = token
        self.port = port

    @property
    def is_running(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def cpu_time(self) -> float:
        """Return the seconds of CPU time that the process has used (Linux only).

        The kernel numbers the clocks of processes like this (clock_getcpuclockid).
        """
        return time.clock_gettime((~self._process.pid << 3) | 0b010)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def ended(self, limit: float) -> int:
        """Return the exit code of the process, which ends within `limit` seconds."""
        await until(lambda: not self.is_running, limit, "the end of the daemon")
        return self._process.wait()

    def log(self) -> str:
        """Return everything that the daemon has logged."""
        return self._log.read_text()

    async def until_logged(self, text: str, limit: float = _START) -> None:
        """Wait until the daemon has logged a text."""

        def logged() -> bool:
            assert self.is_running, "the daemon has ended"
            return text in self.log()

        await until(logged, limit, f"a log line with {text}")

    async def until_it_leads(self) -> None:
        """Wait until the daemon holds the lease and starts controllers."""
        await self.until_logged("Starting controller")

    async def get(
        self, path: str, *, as_admin: bool = False, limit: float = 5.0
    ) -> tuple[int, str]:
        """Send a GET over a new connection; (0, reason) if there is no answer."""
        headers = {"Authorization": f"Bearer {self._token}"} if as_admin else {}
        url = f"https://127.0.0.1:{self.port}{path}"
        connector = aiohttp.TCPConnector(ssl=False, force_close=True)
        try:
            async with (
                asyncio.timeout(limit),
                aiohttp.ClientSession(connector=connector) as session,
                session.get(url, headers=headers) as answer,
            ):
                return answer.status, await answer.text()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return 0, type(error).__name__


@asynccontextmanager
async def run_daemon(
    kubeconfig: dict[str, Any],
    directory: Path,
    *flags: str,
    files: tuple[int, int] | None = None,
    log_to: int | None = None,
    program: str = "controller_manager",
) -> AsyncGenerator[Daemon, None]:
    """Run the daemon while entered; its log is shown if the test fails.

    `files` are the soft and the hard limit of open files. `log_to` is a file descriptor
    that gets the log instead. `program` is the module to run.
    """
    path, log = directory / "kubeconfig", directory / "daemon.log"
    path.write_text(yaml.safe_dump(kubeconfig))
    port = free_port()
    log.touch()
    process = _start(_command(program, path, port, flags, files), log, log_to)
    token = str(kubeconfig["users"][0]["user"]["token"])
    try:
        yield Daemon(process, port, log, token)
    finally:
        await _stop(process)
        lines = log.read_text().splitlines()
        shown = [*lines[:_SHOWN], "...", *lines[-_SHOWN:]]
        sys.stdout.write("\n".join(lines if len(lines) < len(shown) else shown))


def _command(
    module: str,
    kubeconfig: Path,
    port: int,
    flags: tuple[str, ...],
    files: tuple[int, int] | None,
) -> list[str]:
    program = [
        sys.executable,
        "-m",
        module,
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        *flags,
    ]
    if files is None:
        return program
    soft, hard = files
    # Not `preexec_fn` of subprocess: it is not safe with threads.
    limited = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$0" "$@"'
    return ["sh", "-c", limited, *program]


def _start(
    command: list[str], log: Path, log_to: int | None
) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdout=output if log_to is None else log_to,
            stderr=subprocess.STDOUT,
            cwd=_ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


async def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        # In a thread: while the daemon stops, it may need the cluster in this loop.
        await asyncio.to_thread(process.wait, _STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
