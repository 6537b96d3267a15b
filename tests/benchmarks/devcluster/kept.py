"""The data file of a cluster, and snapshots, for so many objects."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from controller_manager.devcluster.data_file import (
    DataFile,
    restore_data,
    snapshot_of_data,
)
from controller_manager.devcluster.snapshot import write_snapshot
from controller_manager.devcluster.storage import Storage, restore, state_of
from tests.benchmarks.devcluster.requests import Figures
from tests.benchmarks.server import NAMESPACE, idle_pod

_MEGABYTE: Final = 1e6


def measure_kept(number: int, directory: Path) -> Figures:
    """Return what snapshots and restores of so many pods of 3.5 kB take."""
    storage = Storage()
    pods = storage.collection("pods")
    for each in range(number):
        pods.put((NAMESPACE, f"idle-{each:06}"), idle_pod(each))
    state = state_of(storage)
    snapshot, data = directory / "snapshot", directory / "data"
    for each in range(0, number, 100):
        pods.remove((NAMESPACE, f"idle-{each:06}"))
    return {
        "snapshot in memory, ms": _seconds(lambda: state_of(storage)) * 1000,
        "restore of 1 % in memory, ms": 1000
        * _seconds(lambda: restore(storage, state, ends_watches=True)),
        "snapshot to a file, s": _seconds(lambda: write_snapshot(snapshot, state)),
        "size of the snapshot, MB": snapshot.stat().st_size / _MEGABYTE,
        "restore to a data file, s": _seconds(lambda: restore_data(data, snapshot)),
        "size of the data file, MB": data.stat().st_size / _MEGABYTE,
        "snapshot of a data file, s": _seconds(
            lambda: snapshot_of_data(data, snapshot)
        ),
        "load a data file, s": _seconds(lambda: _load(data)),
    }


def _load(data: Path) -> None:
    with DataFile.open(data) as file:
        file.state()


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
