"""``kubectl exec`` and ``port-forward``, over SPDY and over websockets.

Since 1.31 kubectl speaks both; the variables of its features choose.
"""

import http.server
import os
import re
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controller_manager.devcluster.testing import DevelopmentCluster
from tests.clients.scenarios import JSON
from tests.clients.test_kubectl_versions import program
from tests.devcluster.testing.calls import Caller
from tests.devcluster.testing.test_faults import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kubectl]

__all__ = ["program"]

ANSWERS = [
    {"command": "cat /etc/hostname", "stdout": "web\n"},
    {"command": ["sh", "-c", "exit 3"], "stderr": "no\n", "exitCode": 3},
]


class Page(http.server.BaseHTTPRequestHandler):
    """A program on this machine."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * 300_000)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def namespace(clients_cluster: DevelopmentCluster, port: int) -> Iterator[str]:
    notes = {
        "devcluster/exec": yaml.safe_dump(ANSWERS),
        "devcluster/forward": f"80=127.0.0.1:{port}",
    }
    pod: JSON = {
        "metadata": {"name": "web", "annotations": notes},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    caller = Caller(clients_cluster.kubeconfig)
    with clients_cluster.namespace("streams") as name:
        path = f"/api/v1/namespaces/{name}/pods"
        assert caller.send("POST", path, pod).status == 201
        wait_until(
            lambda: caller.get(f"{path}/web").body["status"]["phase"] == "Running"
        )
        yield name


@pytest.fixture(params=["true", "false"], ids=["websockets", "spdy"])
def environment(
    request: pytest.FixtureRequest,
    clients_cluster: DevelopmentCluster,
    tmp_path: Path,
) -> dict[str, str]:
    """Return the environment of a kubectl that speaks one of the protocols."""
    return {
        **os.environ,
        **clients_cluster.environment(),
        "HOME": str(tmp_path),
        "KUBECTL_PORT_FORWARD_WEBSOCKETS": request.param,
        "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": request.param,
    }


def test_exec_prints_the_answer_and_ends_with_its_code(
    program: str, namespace: str, environment: dict[str, str]
) -> None:
    def executed(*words: str) -> tuple[int, str, str]:
        ended = subprocess.run(
            [program, "-n", namespace, "exec", "-i", "web", "--", *words],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            input="given",
            env=environment,
        )
        # Some versions log that a command which has ended did not read its input.
        lines = ended.stderr.splitlines(keepends=True)
        logged = ("Unhandled Error", "Copying stdin failed")
        errors = "".join(
            each for each in lines if not any(text in each for text in logged)
        )
        return ended.returncode, ended.stdout, errors

    assert executed("cat", "/etc/hostname") == (0, "web\n", "")
    code, output, errors = executed("sh", "-c", "exit 3")
    assert (code, output) == (3, "")
    assert errors == "no\ncommand terminated with exit code 3\n"
    code, _, errors = executed("ls")
    assert code == 1
    assert 'the annotation devcluster/exec has an answer to "ls"' in errors


def test_port_forward_connects_to_a_program(
    program: str, namespace: str, environment: dict[str, str]
) -> None:
    """Several times, one after the other."""
    command = [program, "-n", namespace, "port-forward", "pod/web", ":80"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment
    ) as forwarding:
        assert forwarding.stdout is not None
        line = forwarding.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+) -> 80", line)
        assert found, line
        try:
            for _ in range(3):
                url = f"http://127.0.0.1:{found[1]}/"
                with urllib.request.urlopen(url, timeout=10) as answer:
                    assert answer.read() == b"x" * 300_000
        finally:
            forwarding.terminate()
