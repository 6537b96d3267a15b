"""The HTTPS server in a process with few file descriptors, and many peers."""

import json
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.serving.servers import trusting

ROOT = Path(__file__).parents[2]
both_loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


class Flooded:
    """A server in another process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.port = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, command: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer()

    def left(self) -> int:
        found = 0
        for _ in range(50):
            found, _ = self.ask("state")
            if not found:
                break
        return found

    def connect(self, stack: ExitStack) -> socket.socket:
        return stack.enter_context(
            socket.create_connection(("127.0.0.1", self.port), timeout=20)
        )

    def connect_from(self, address: str) -> socket.socket:
        return socket.create_connection(
            ("127.0.0.1", self.port), timeout=20, source_address=(address, 0)
        )

    def livez(self) -> str:
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=20) as plain,
            trusting().wrap_socket(plain) as wrapped,
        ):
            wrapped.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
            return wrapped.recv(65536).decode().splitlines()[0]


@contextmanager
def flooded(loop: str, files: int, **limits: float) -> Iterator[Flooded]:
    program = [sys.executable, "-m", "tests.serving.flooded"]
    with subprocess.Popen(
        [*program, loop, str(files), json.dumps(limits)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        yield Flooded(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.fixture
def _many_files() -> Iterator[None]:
    """Let this process have the other ends of the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@both_loops
@pytest.mark.usefixtures("_many_files")
@pytest.mark.slow
def test_750_idle_connections_leave_file_descriptors_and_health(loop: str) -> None:
    with flooded(loop, 256) as server, ExitStack() as stack:
        tls = trusting()
        for number in range(750):
            plain = server.connect(stack)
            if number % 5 == 0:
                try:
                    wrapped = stack.enter_context(tls.wrap_socket(plain))
                    wrapped.sendall(b"GET /livez HTTP/1.1\r\nHost:" * (number % 2))
                except OSError:
                    continue  # closed in favour of a later one
        assert [server.livez() for _ in range(3)] == ["HTTP/1.0 200 OK"] * 3
        connections, openable = server.ask("state")
    assert connections <= 64
    assert openable == 100


@both_loops
@pytest.mark.slow
def test_a_process_without_files_does_not_spin(loop: str) -> None:
    """It tries once a second, and serves again when there are files."""
    with flooded(loop, 64) as server:
        assert server.ask("hold") > 0
        began = time.monotonic()
        answers: list[str] = []
        asking = threading.Thread(target=lambda: answers.append(server.livez()))
        asking.start()
        asking.join(1.5)
        looked = server.ask("release")
        seconds = time.monotonic() - began
        asking.join(20)
    assert answers == ["HTTP/1.0 200 OK"]
    assert 1 <= looked <= seconds + 1


@both_loops
def test_a_peer_that_speaks_no_tls_leaves_nothing_behind(loop: str) -> None:
    """It is cut off."""
    with flooded(loop, 256) as server, ExitStack() as stack:
        plain = server.connect(stack)
        plain.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        while plain.recv(65536):
            continue
        assert server.left() == 0


@both_loops
@pytest.mark.parametrize(
    ("limit", "sent"),
    [
        ("handshake", None),
        ("header", b""),
        ("header", b"GET /livez HTTP/1.1\r\nHost:"),
        ("idle", b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"),
    ],
)
@pytest.mark.slow
def test_a_silent_peer_is_cut_off(loop: str, limit: str, sent: bytes | None) -> None:
    with (
        flooded(loop, 256, closing=0.01, **{limit: 0.3}) as server,
        ExitStack() as stack,
    ):
        peer = server.connect(stack)
        if sent is not None:
            peer = stack.enter_context(trusting().wrap_socket(peer))
            peer.sendall(sent)
        answer = b"".join(iter(lambda: peer.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 OK") is (limit == "idle")
        assert server.left() == 0


def client_hello() -> bytes:
    """Return the first message of a handshake."""
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        trusting().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


def begin(port: int, number: int, hello: bytes) -> socket.socket:
    """Begin a handshake as one of five peers, and wait for nothing."""
    sock = socket.socket()
    sock.setblocking(False)  # noqa: FBT003 - its only parameter
    sock.bind((f"127.0.0.{number % 5 + 2}", 0))
    with suppress(BlockingIOError):
        sock.connect(("127.0.0.1", port))
    with suppress(OSError):
        sock.sendall(hello)
    return sock


def begin_only(server: Flooded, until: float) -> None:
    """Begin 600 connections a second, hold 400 of them, and answer nothing."""
    hello, began, count = client_hello(), time.monotonic(), 0
    opened: deque[socket.socket] = deque()
    while (now := time.monotonic()) < until:
        for _ in range(int((now - began) * 600) - count):
            opened.append(begin(server.port, count, hello))
            count += 1
        while len(opened) > 400:
            opened.popleft().close()
        time.sleep(1 / 100)
    for each in opened:
        each.close()


def shake_hands(server: Flooded, until: float) -> None:
    """Open TLS connections one after the other, as fast as it goes."""
    tls = trusting()
    while time.monotonic() < until:
        with (
            suppress(OSError),
            server.connect_from("127.0.0.2") as plain,
            tls.wrap_socket(plain),
        ):
            continue


def hold(server: Flooded, until: float) -> None:
    """Keep 260 connections open, and say nothing."""
    with ExitStack() as stack:
        for _ in range(260):
            server.connect(stack)
        time.sleep(until - time.monotonic())


@pytest.mark.parametrize(
    ("flood", "threads"), [(begin_only, 1), (shake_hands, 8), (hold, 1)]
)
@pytest.mark.slow
def test_a_flood_of_connections_stops_no_probe(
    flood: Callable[[Flooded, float], None], threads: int
) -> None:
    """A kubelet whose probes get no answer restarts the manager."""
    with flooded("uvloop", 4096) as server:
        until = time.monotonic() + 3
        flooding = [
            threading.Thread(target=flood, args=(server, until)) for _ in range(threads)
        ]
        for each in flooding:
            each.start()
        found = []
        while time.monotonic() < until:
            try:
                found.append(server.livez())
            except OSError as error:
                found.append(str(error))
            time.sleep(0.1)
        for each in flooding:
            each.join()
    assert set(found) == {"HTTP/1.0 200 OK"}
