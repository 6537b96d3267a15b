"""The cluster that the clients use."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a development cluster without controllers; yield its kubeconfig."""
    path = tmp_path_factory.mktemp("clients") / "kubeconfig"
    flags = ("--port=0", "--nodes=2", "--without-controllers", "--grace-scale=0")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "controller_manager", "devcluster", *flags),
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
