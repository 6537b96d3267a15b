"""``devcluster -- COMMAND``: the cluster starts and ends with the command."""

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controller_manager.devcluster.cluster import KubeconfigError, remove_kubeconfig
from tests.http.test_over_http import start

pytestmark = pytest.mark.slow

LIST_NODES = """
import os, asyncio
from controller_manager.api.core.v1 import NODES
from controller_manager.client.rest.client import Client
from controller_manager.client.identity.credentials import load_credentials
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock

async def main():
    path = os.environ["KUBECONFIG"]
    clock = SystemClock()
    transport = HTTPTransport(load_credentials(path, "", clock), "test")
    nodes = await Client(transport, clock).list_page(NODES)
    print(path, *(each.metadata.name for each in nodes.items))
    await transport.close()

asyncio.run(main())
"""

SAY_WHICH_SIGNAL = """
import signal, sys, time
for number in map(int, sys.argv[1:]):
    signal.signal(number, lambda number, _: sys.exit(f"got {number}"))
print("ready", flush=True)
time.sleep(30)
"""

COUNT_INTERRUPTS = """
import signal, time
count = 0
def interrupted(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, interrupted)
print("ready", flush=True)
until = time.monotonic() + 1
while time.monotonic() < until:
    time.sleep(0.1)
print("interrupts:", count, flush=True)
"""


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def run(*arguments: str) -> tuple[int, list[str]]:
    """Return exit code and all output of ``devcluster`` on a free port."""
    process = start("devcluster", "--port=0", "--nodes=2", *arguments)
    output = process.communicate(timeout=30)[0]
    return process.returncode, output.splitlines()


def test_the_command_finds_the_cluster_and_nothing_else_is_printed() -> None:
    code, (line,) = run("--", *python(LIST_NODES))
    path, *nodes = line.split()
    assert (code, nodes) == (0, ["node-0", "node-1"])
    assert Path(path).is_absolute()
    assert not Path(path).parent.exists()


def test_the_named_kubeconfig_is_the_commands() -> None:
    """KUBECONFIG has its absolute path; the file is removed with the cluster."""
    root = Path(__file__).parents[2]
    name = f"test-{os.getpid()}.devcluster.yaml"
    flags = (f"--write-kubeconfig={name}", "--without-controllers")
    code, (line,) = run(*flags, "--", *python(LIST_NODES))
    assert (code, line) == (0, f"{root / name} node-0 node-1")
    assert not (root / name).exists()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -KILL $$"), 128 + signal.SIGKILL),
        (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM),
    ],
)
def test_the_exit_code_is_the_commands(command: tuple[str, ...], code: int) -> None:
    assert run("--without-controllers", "--", *command) == (code, [])


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("no-such-program", "there is no program of that name on the PATH"),
        ("./no-such-program", "there is no such file"),
        ("./README.md", "it is not an executable file"),
        ("{path}", "No such file or directory"),
    ],
)
def test_a_command_that_cannot_be_run_is_one_line(
    tmp_path: Path, program: str, why: str
) -> None:
    path = tmp_path / "program"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o700)
    program = program.format(path=path)
    problem = f"Error: {program}: cannot be run: {why}"
    assert run("--without-controllers", "--", program) == (127, [problem])


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
)
def test_a_signal_is_passed_on(number: signal.Signals) -> None:
    command = python(SAY_WHICH_SIGNAL, str(int(number)))
    process = start("devcluster", "--port=0", "--without-controllers", "--", *command)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    output = process.communicate(timeout=20)[0]
    assert (process.returncode, output) == (1, f"got {int(number)}\n")


def test_a_key_interrupts_the_command_once() -> None:
    """The terminal sends Ctrl-C to both processes, so it is not passed on again."""
    terminal, ours = pty.openpty()
    command = [
        *(sys.executable, "-m", "controller_manager", "devcluster", "--port=0"),
        *("--without-controllers", "--", *python(COUNT_INTERRUPTS)),
    ]
    # A session of its own, whose terminal this becomes.
    leader = (
        "import fcntl, os, sys, termios\n"
        "os.setsid()\n"
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    with subprocess.Popen(
        python(leader, *command), stdin=ours, stdout=ours, stderr=ours
    ) as process:
        os.close(ours)
        seen = _read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        seen += _read_until(terminal, b"interrupts: 1")
        assert process.wait(20) == 0, seen
    os.close(terminal)


def _read_until(terminal: int, text: bytes) -> bytes:
    """Read until `text` was seen; fail after half a minute."""
    seen = b""
    deadline = time.monotonic() + 30
    while text not in seen:
        left = deadline - time.monotonic()
        assert left > 0, seen
        if select.select([terminal], [], [], left)[0]:
            seen += os.read(terminal, 4096)
    return seen


# The kubeconfig of a cluster that was killed

OURS = "# Written by controller-manager devcluster, and removed at its end.\nold: 1\n"


def test_a_stale_kubeconfig_is_removed_at_the_start(tmp_path: Path) -> None:
    """Even if this cluster cannot start: programs that wait for it go on waiting."""
    file = tmp_path / "kubeconfig"
    file.write_text(OURS)
    manifest = tmp_path / "refused.yaml"
    manifest.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: A_b}}")
    code, output = run(f"--write-kubeconfig={file}", f"--manifests={manifest}")
    assert code == 1
    assert output[-1].startswith("Error: manifest refused.yaml, document 1: ConfigMap")
    assert not file.exists()


def test_a_cluster_that_cannot_listen_leaves_the_file_to_the_one_that_can(
    tmp_path: Path,
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(OURS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, output = run(f"--port={port}", f"--write-kubeconfig={file}")
    assert (code, len(output)) == (1, 1)
    assert "the port is in use" in output[0]
    assert file.read_text() == OURS


def test_a_file_that_is_not_a_clusters_is_never_removed(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(KubeconfigError, match="the file exists and is not"):
        remove_kubeconfig(file)
    code, output = run(f"--write-kubeconfig={file}", "--", "true")
    assert (code, len(output)) == (1, 1)
    assert file.read_text() == "apiVersion: v1\nkind: Config\n"
