"""Development clusters in processes of their own, and kubectl to drive them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import yaml

KUBECTL: Final = shutil.which("kubectl")
NEEDS_KUBECTL: Final = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
]
"""The marks of each test here."""

Kubectl = Callable[..., str]
"""Runs kubectl with arguments in its own namespace; returns the output."""


@contextmanager
def running_cluster(directory: Path, *flags: str) -> Iterator[Path]:
    """Run a development cluster with these flags; yield its kubeconfig."""
    path = directory / "kubeconfig"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "controller_manager", "devcluster", "--port=0"),
            *flags,
            f"--write-kubeconfig={path}",
        ],
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    try:
        yield path
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(10)
    assert code == 0


def kubectl_in(kubeconfig: Path, test: str) -> Kubectl:
    """Return a function that runs kubectl in a new namespace, named after `test`."""
    words = re.sub(r"[^a-z]+", "-", test)[:40].strip("-")
    name = f"{words}-{zlib.crc32(test.encode()):08x}"

    def run(
        *arguments: str,
        stdin: str = "",
        ok: bool = True,
        timeout: float = 60,
        **env: str,
    ) -> str:
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
            timeout=timeout,
            check=False,
            env={**os.environ, "HOME": str(kubeconfig.parent), **env},
        )
        assert (result.returncode == 0) is ok, result.stdout + result.stderr
        return result.stdout + result.stderr

    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    run("create", *validation(), "-f", "-", stdin=yaml.safe_dump(namespace))
    return run


def version() -> tuple[int, int]:
    output = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = json.loads(output)["clientVersion"]
    return int(found["major"]), int(re.sub(r"\D", "", found["minor"]))


def validation() -> list[str]:
    """Return the flags of a kubectl that relies on validation by the client."""
    return [] if version() >= (1, 27) else ["--validate=false"]


def names(kubectl: Kubectl, kinds: str) -> list[str]:
    return kubectl("get", kinds, "-o", "name").split()


def gone(kubectl: Kubectl, kinds: str) -> None:
    """Wait until there are no objects of these kinds."""
    deadline = time.monotonic() + 20
    while found := names(kubectl, kinds):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
