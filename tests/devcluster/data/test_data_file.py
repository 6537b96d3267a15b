"""The file that keeps the state of a cluster."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from controller_manager.devcluster.data.data_error import DataError, NotSavedError
from controller_manager.devcluster.data.data_file import Batch, DataFile
from controller_manager.devcluster.server.storage.state import StorageState, state_of
from controller_manager.devcluster.server.storage.storage import Storage, Stored

PODS = "pods"


def stored(name: str, version: int) -> Stored:
    metadata = {"name": name, "namespace": "n", "resourceVersion": str(version)}
    return Stored({"kind": "Pod", "metadata": metadata}, version)


def batch(version: int, *objects: Stored, is_final: bool = True) -> Batch:
    places = {(PODS, "n", each.obj["metadata"]["name"]): each for each in objects}
    return Batch(version, version + 1000, places, {"x": 7}, is_final)


def contents(state: StorageState) -> dict[str, int]:
    return {
        key[1]: each.version
        for objects in state.objects.values()
        for key, each in objects.items()
    }


def test_it_has_the_written_state_and_the_same_keys(tmp_path: Path) -> None:
    """Of an object, the last state; the file is its owner's."""
    path = tmp_path / "data"
    with DataFile.open(path) as file:
        keys, token = file.keys, file.admin_token
        file.write(batch(5, stored("a", 4), stored("b", 5)))
        gone: dict[tuple[str, str, str], Stored | None] = {(PODS, "n", "b"): None}
        file.write(
            Batch(7, 7, {**gone, (PODS, "n", "a"): stored("a", 6)}, {}, is_final=True)
        )
        file.write_port(1234)
    assert path.stat().st_mode & 0o777 == 0o600
    with DataFile.open(path) as file:
        state = file.state()
        assert (state.version, contents(state)) == (7, {"a": 6})
        assert state.objects[PODS]["n", "a"].obj == stored("a", 6).obj
        assert (file.keys.authority.certificate, file.admin_token, file.port) == (
            keys.authority.certificate,
            token,
            1234,
        )
        assert file.keys.account_key_pem() == keys.account_key_pem()
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_after_a_crash_no_version_is_used_twice(
    tmp_path: Path,
) -> None:
    """Clients may have seen versions that are not in the file."""
    with DataFile.open(tmp_path / "data") as file:
        file.write(batch(5, stored("a", 5), is_final=False))
    with DataFile.open(tmp_path / "data") as file:
        assert file.state().version == 1005


def test_another_process_is_told_that_the_file_is_in_use(tmp_path: Path) -> None:
    """So is another cluster of this process; the first one goes on."""
    path = tmp_path / "data"
    with DataFile.open(path) as file:
        with pytest.raises(DataError, match=f"^{path}: is in use by another devel"):
            DataFile.open(path)
        file.write(batch(5, stored("a", 5)))
    with DataFile.open(path) as file:
        assert contents(file.state()) == {"a": 5}


def a_text(path: Path) -> None:
    path.write_text("apiVersion: v1\n")


def another_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()


def a_newer_one(path: Path) -> None:
    DataFile.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()


def a_damaged_one(path: Path) -> None:
    with DataFile.open(path) as file:
        file.write(batch(9, *(stored(f"pod-{each}", 9) for each in range(500))))
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 5] = b"\xff" * 4096 * 2
    path.write_bytes(content)


def one_with_a_damaged_object(path: Path) -> None:
    with DataFile.open(path) as file:
        file.write(batch(9, stored("a", 9)))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE objects SET object = '{'")
    connection.close()


def one_without_keys(path: Path) -> None:
    DataFile.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM cluster")
    connection.close()


def in_no_directory(path: Path) -> None:
    path.parent.rmdir()


def a_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (a_text, "is not a data file of a development cluster; name another file"),
        (another_database, "is the SQLite file of another program"),
        (a_newer_one, "has format 2, and this version of controller-manager reads"),
        (a_damaged_one, "is damaged, and was left as it is"),
        (one_with_a_damaged_object, "is damaged, and was left as it is: the table obj"),
        (one_without_keys, "is damaged, and was left as it is: the table cluster"),
        (in_no_directory, "there is no directory"),
        (a_directory, "cannot be opened: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_stays(
    tmp_path: Path, make: Callable[[Path], None], message: str
) -> None:
    """Nothing of it is overwritten."""
    path = tmp_path / "its" / "data"
    path.parent.mkdir()
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(DataError) as raised, DataFile.open(path) as file:
        file.state()
    assert str(raised.value).startswith(f"{path}: {message}")
    assert "\n" not in str(raised.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_batch_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """The earlier state is not lost, also if the objects are replaced."""
    many = Storage()
    for number in range(1000):
        many.collection(PODS).put(("n", str(number)), stored(str(number), 9).obj)
    with DataFile.open(tmp_path / "data") as file:
        file.write(batch(5, stored("a", 5)))
        file._connection.execute("PRAGMA max_page_count = 12")
        state = state_of(many)
        places = {(PODS, *key): each for key, each in state.objects[PODS].items()}
        with pytest.raises(NotSavedError, match="database or disk is full"):
            file.write(Batch(9, 9, places, {}, is_final=True))
        with pytest.raises(NotSavedError, match="database or disk is full"):
            file.replace(state)
        assert contents(file.state()) == {"a": 5}
        file._connection.execute("PRAGMA max_page_count = 100000")
        file.replace(state)
        assert len(contents(file.state())) == 1000
