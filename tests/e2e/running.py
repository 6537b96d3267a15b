"""What the tests with kubectl share: its version, and waiting."""

import json
import re
import subprocess
import time
from collections.abc import Callable

Kubectl = Callable[..., str]
"""Runs kubectl with arguments in a namespace of its own; returns what it prints."""


def version() -> tuple[int, int]:
    """Return major and minor version of kubectl."""
    output = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    version = json.loads(output)["clientVersion"]
    return int(version["major"]), int(re.sub(r"\D", "", version["minor"]))


def validation() -> list[str]:
    """Return the flags of a kubectl that relies on validation by the client."""
    return [] if version() >= (1, 27) else ["--validate=false"]


def names(kubectl: Kubectl, kinds: str) -> list[str]:
    """Return the objects of some kinds, as KIND/NAME."""
    return kubectl("get", kinds, "-o", "name").split()


def gone(kubectl: Kubectl, kinds: str) -> None:
    """Wait until there are no objects of these kinds."""
    deadline = time.monotonic() + 20
    while found := names(kubectl, kinds):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
