"""The daemon as a process whose log has no reader, or one that does not read."""

import json
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_port

ROOT = Path(__file__).parents[2]


class Daemon:
    """A daemon that waits for an API server, and serves its endpoints."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._port = free_port()
        kubeconfig = directory / "kubeconfig"
        cluster = {"server": f"https://127.0.0.1:{free_port()}"}
        config = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        kubeconfig.write_text(json.dumps(config))
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "controller_manager"),
                *(f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1"),
                *(f"--secure-port={self._port}", "-v=4"),
                *("--authorization-always-allow-paths=/metrics", *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pipesize=4096,
            text=True,
            cwd=ROOT,
        )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + 20
        while not self._is_up():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _is_up(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=5).close()
        except OSError:
            return False
        return True

    def lose_log(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def fill_log(self) -> None:
        """Cause more lines than the pipes of the log hold, and read none of them."""
        self.write_lines(100)

    def read_log(self) -> list[str]:
        output, errors = self.process.communicate(timeout=10)
        return [*output.splitlines(), *errors.splitlines()]

    def write_lines(self, count: int = 20) -> None:
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", self._port), 10) as peer:
                peer.sendall(b"GET / HTTP/1.0\r\n\r\n")
                while peer.recv(65536):
                    continue

    def lost_lines(self, name: str = "log_write_failures_total") -> float:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        url = f"https://127.0.0.1:{self._port}/metrics"
        with urllib.request.urlopen(url, context=context, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return next(
            float(line.removeprefix(f"{name} "))
            for line in lines
            if line.startswith(f"{name} ")
        )


@pytest.fixture(params=["text", "json", "split"])
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Daemon]:
    flags = {
        "text": (),
        "json": ("--logging-format=json",),
        "split": (
            "--feature-gates=LoggingAlphaOptions=true",
            "--log-text-split-stream",
        ),
    }
    running = Daemon(tmp_path, *flags[request.param])
    yield running
    running.process.kill()
    running.process.wait()
    for stream in (running.process.stdout, running.process.stderr):
        assert stream is not None
        stream.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_a_signal_ends_it_all_the_same(daemon: Daemon, number: signal.Signals) -> None:
    assert daemon.lost_lines() == 0
    daemon.lose_log()
    daemon.write_lines()
    assert daemon.lost_lines() >= 20
    daemon.process.send_signal(number)
    assert daemon.process.wait(10) == 0


@pytest.mark.slow
def test_an_idle_reader_stops_neither_daemon_nor_end(daemon: Daemon) -> None:
    """It answers requests, and a signal ends it with exit code 0."""
    daemon.fill_log()
    assert daemon.lost_lines() == daemon.lost_lines("log_lines_dropped_total") == 0
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(10) == 0


@pytest.mark.slow
def test_a_reader_that_reads_again_gets_all_lines(daemon: Daemon) -> None:
    daemon.fill_log()
    daemon.process.send_signal(signal.SIGTERM)
    lines = daemon.read_log()
    assert daemon.process.returncode == 0
    assert len([line for line in lines if "http request" in line]) == 100
    assert len([line for line in lines if "Stopping" in line]) == 1
