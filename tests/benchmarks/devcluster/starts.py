"""Measure the time that a cluster takes to start."""

import subprocess
import sys
import time

from controller_manager.devcluster.testing import ClusterSettings, DevelopmentCluster
from tests.benchmarks.measuring import Figures

_IMPORT = "import controller_manager.devcluster.testing.cluster"
_RUNS = 5


def measure_starts() -> Figures:
    """Return the least time of several starts, in milliseconds."""
    command = (sys.executable, "-m", "controller_manager", "devcluster", "--port=0")
    true = ("--", "true")
    return {
        "in process, without controllers, ms": _in_process(
            ClusterSettings(controllers=())
        ),
        "in process, with all controllers, ms": _in_process(ClusterSettings()),
        "import of the package, ms": _command(sys.executable, "-c", _IMPORT),
        "command, without controllers, ms": _command(
            *command, "--without-controllers", *true
        ),
        "command, with all controllers, ms": _command(*command, *true),
    }


def _in_process(settings: ClusterSettings) -> float:
    """Return the time from ``start`` until everything runs."""
    times = []
    for _ in range(_RUNS):
        cluster = DevelopmentCluster(settings)
        began = time.perf_counter()
        cluster.start()
        times.append(time.perf_counter() - began)
        cluster.stop()
    return 1000 * min(times)


def _command(*command: str) -> float:
    """Return the time of a whole process: start, work, end."""
    times = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        subprocess.run(command, check=True)
        times.append(time.perf_counter() - began)
    return 1000 * min(times)
