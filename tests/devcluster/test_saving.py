"""A cluster writes its changes in the background."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller_manager.clock import SystemClock
from controller_manager.devcluster.snapshot import RESERVE, DataError, DataFile, Saving
from controller_manager.devcluster.storage import Storage, load
from controller_manager.observability.logs import silent_logger

PODS, NODES = "pods", "nodes"

WRITE_PAIRS = """
import asyncio, sys
from pathlib import Path
from controller_manager.clock import SystemClock
from controller_manager.devcluster.snapshot import DataFile, Saving
from controller_manager.devcluster.storage import Storage
from controller_manager.observability.logs import silent_logger

async def main():
    storage = Storage()
    saving = Saving(
        DataFile.open(Path(sys.argv[1])), storage, SystemClock(), silent_logger()
    )
    running = asyncio.create_task(saving.run())
    number = 0
    while True:
        number += 1
        for resource in ("pods", "nodes"):
            metadata = {"name": str(number % 7), "uid": "1"}
            obj = {"kind": "A", "apiVersion": "v1", "metadata": metadata}
            obj["number"] = number
            storage.collection(resource).put(("", metadata["name"]), obj)
        print(storage.version, flush=True)
        await asyncio.sleep(0.001)

asyncio.run(main())
"""


@asynccontextmanager
async def saved_storage(path: Path) -> AsyncIterator[tuple[Storage, Saving]]:
    """Yield a storage whose changes are written until the context is left."""
    storage, file = Storage(), DataFile.open(path)
    load(storage, file.state())
    saving = Saving(file, storage, SystemClock(), silent_logger())
    running = asyncio.create_task(saving.run())
    try:
        yield storage, saving
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await saving.close()


def put(storage: Storage, resource: str, name: str, number: int) -> None:
    metadata = {"name": name, "uid": "1"}
    obj = {"kind": "A", "apiVersion": "v1", "metadata": metadata, "number": number}
    storage.collection(resource).put(("", name), obj)


def numbers(storage: Storage, resource: str) -> dict[str, int]:
    found = storage.collection(resource).snapshot()
    return {key[1]: each.obj["number"] for key, each in found.items()}


def copied(path: Path, to: Path) -> Path:
    """Copy a data file as it would be found after the end of this process."""
    for each in path.parent.glob(f"{path.name}*"):
        shutil.copy(each, to.with_name(each.name.replace(path.name, to.name)))
    return to


async def test_a_storage_continues_with_the_stored_state(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with saved_storage(path) as (first, _):
        for number, name in enumerate("cabc"):
            put(first, PODS, name, number)
        first.collection(PODS).remove(("", "b"))
        assert first.next_number("addresses") == 1
    async with saved_storage(path) as (second, _):
        assert list(numbers(second, PODS).items()) == [("a", 1), ("c", 3)]
        assert second.version == first.version
        assert second.next_number("addresses") == 2


async def test_changes_of_one_request_are_written_together(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with saved_storage(path) as (storage, saving):
        for number in range(20):
            put(storage, PODS, "a", number)
            put(storage, NODES, "a", number)
            version = storage.version
            await saving.save()
            put(storage, PODS, "a", -1)  # not written yet
            found = copied(path, tmp_path / f"copy-{number}")
            with DataFile.open(found) as file:
                state, other = file.state(), Storage()
            load(other, state)
            assert numbers(other, PODS) == numbers(other, NODES) == {"a": number}
            assert version < state.version <= version + RESERVE


async def test_a_failed_write_loses_nothing_and_is_told(tmp_path: Path) -> None:
    """Accepted changes stay in memory until the file can be written again."""
    path = tmp_path / "its" / "data"
    path.parent.mkdir()
    file, storage = DataFile.open(path), Storage()
    saving = Saving(file, storage, SystemClock(), silent_logger())
    put(storage, PODS, "a", 1)
    await saving.save()
    path.parent.rename(tmp_path / "away")
    put(storage, PODS, "b", 1)
    running = asyncio.create_task(saving.run())
    await until(lambda: storage.trouble != "")
    assert storage.trouble == f"{path}: cannot be written: No such file or directory"
    put(storage, PODS, "b", 2)
    with pytest.raises(DataError):
        await saving.save()
    (tmp_path / "away").rename(path.parent)
    await until(lambda: storage.trouble == "")
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await saving.close()
    async with saved_storage(path) as (found, _):
        assert numbers(found, PODS) == {"a": 1, "b": 2}


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - a thread sets no event
        await asyncio.sleep(0.01)


@pytest.mark.slow
def test_a_killed_process_leaves_the_state_of_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "data"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE_PAIRS, str(path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    ends_at = time.monotonic() + 2.5
    while time.monotonic() < ends_at:
        line = process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    rest = process.communicate()[0].splitlines()
    last = int(rest[-1] if rest else line)
    storage = Storage()
    with DataFile.open(path) as file:
        load(storage, file.state())
    assert numbers(storage, PODS) == numbers(storage, NODES)
    assert len(numbers(storage, PODS)) == 7
    assert storage.version > last
