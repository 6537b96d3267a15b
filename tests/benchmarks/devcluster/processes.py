"""A development cluster as a process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PATIENCE = 60.0

TREE: Final = Path(__file__).parents[3]
"""The directory of this source."""


@contextmanager
def running_cluster(
    directory: Path, *flags: str, tree: Path = TREE
) -> Iterator[tuple[Path, int]]:
    """Run a cluster without controllers; yield its kubeconfig and its process id.

    It runs from the source in `tree`.
    """
    path = directory / "kubeconfig"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "controller_manager", "devcluster", "--port=0"),
            *("--without-controllers", "--nodes=10", "--pod-start-delay=0.1s"),
            *flags,
            f"--write-kubeconfig={path}",
        ],
        stderr=subprocess.DEVNULL,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(tree)},
    )
    try:
        deadline = time.monotonic() + _PATIENCE
        while not path.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                msg = "the cluster does not start"
                raise RuntimeError(msg)
            time.sleep(0.01)
        yield path, process.pid
    finally:
        process.terminate()
        process.wait(_PATIENCE)
