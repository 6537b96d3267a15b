"""Managers as processes: ours and another one."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller_manager.manager.manager import STRICT_READS
from tests.benchmarks.machine import Usage, children_of, usage_of
from tests.ports import free_port

_CONTROLLERS: Final = "deployment-controller,replicaset-controller"
"""The replacements in a command for a benchmark of other controllers."""

OURS: Final = (
    f"{sys.executable} -m controller_manager --kubeconfig={{kubeconfig}} "
    "--authentication-kubeconfig={kubeconfig} --authorization-kubeconfig={kubeconfig} "
    f"--controllers={_CONTROLLERS} --leader-elect=false "
    "--kube-api-qps=10000 --kube-api-burst=10000 --secure-port={port}"
)
"""The command of this build; its client rate limit is too high to matter."""

_OF_TESTS: Final = (STRICT_READS, "PYTHONDONTWRITEBYTECODE")
"""Variables of the tests. A manager that users start reads its caches without views,
and has its bytecode cached.
"""


class ContenderError(Exception):
    """A manager does not run; the message says why."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A name for the table, and a command with placeholders."""

    name: str
    command: str

    def running_only(self, controllers: str) -> "Contender":
        """Return this contender with other controllers in its command."""
        command = self.command.replace(_CONTROLLERS, controllers)
        return Contender(self.name, command)

    @contextmanager
    def running(self, kubeconfig: Path, log: Path) -> Iterator["Running"]:
        """Run the manager while entered."""
        port = free_port()
        command = self.command.replace("{kubeconfig}", str(kubeconfig))
        words = shlex.split(command.replace("{port}", str(port)))
        kept = {k: v for k, v in os.environ.items() if k not in _OF_TESTS}
        with log.open("wb") as output:
            try:
                process = subprocess.Popen(
                    words, stdout=output, stderr=output, env=kept
                )
            except OSError as error:
                msg = f"{self.name}: {words[0]}: {error.strerror}"
                raise ContenderError(msg) from error
            started = time.monotonic()
            try:
                yield Running(self, process, port, log, started)
            finally:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


@dataclass(frozen=True, slots=True)
class Running:
    """A running manager."""

    contender: Contender
    process: "subprocess.Popen[bytes]"
    port: int
    log: Path
    started: float
    longest_answer: float | None = None
    """Longest answer of /healthz during the start, in seconds; None if not served."""

    def check(self) -> None:
        """Raise ContenderError if the process has ended."""
        if (code := self.process.poll()) is not None:
            last = self.log.read_text(errors="replace").strip().splitlines()[-1:]
            msg = f"{self.contender.name} has ended with {code}: {' '.join(last)}"
            raise ContenderError(msg)

    def usage(self) -> Usage:
        """Return the usage of the manager, without a shell around it."""
        self.check()
        pid = self.process.pid
        comm = Path(f"/proc/{pid}/comm").read_text().strip()
        while comm in ("sh", "bash", "time") and (children := children_of(pid)):
            pid = children[0]
            comm = Path(f"/proc/{pid}/comm").read_text().strip()
        return usage_of(pid)
