"""A development cluster for each module, and a namespace for each test."""

import os
import re
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.running import Kubectl, validation


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a development cluster with the controllers, for all tests of this module."""
    path = tmp_path_factory.mktemp("e2e") / "kubeconfig"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "controller_manager", "devcluster", "--port=0"),
            *("--pod-start-delay=100ms", "--grace-scale=0"),
            f"--write-kubeconfig={path}",
        ],
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield path
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0


@pytest.fixture
def kubectl(kubeconfig: Path, request: pytest.FixtureRequest) -> Kubectl:
    """Return a function that runs kubectl in a namespace of its own."""
    words = re.sub(r"[^a-z]+", "-", request.node.name)[:40].strip("-")
    name = f"{words}-{zlib.crc32(request.node.name.encode()):08x}"

    def run(*arguments: str, stdin: str = "", ok: bool = True, **env: str) -> str:
        result = subprocess.run(
            [
                "kubectl",
                f"--kubeconfig={kubeconfig}",
                f"--namespace={name}",
                *arguments,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "HOME": str(kubeconfig.parent), **env},
        )
        assert (result.returncode == 0) is ok, result.stdout + result.stderr
        return result.stdout + result.stderr

    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    run("create", *validation(), "-f", "-", stdin=yaml.safe_dump(namespace))
    return run
