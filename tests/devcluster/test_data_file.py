"""The file that keeps the state of a cluster."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from controller_manager.devcluster.snapshot import (
    RESERVE,
    DataError,
    DataFile,
    read_snapshot,
    write_snapshot,
)
from controller_manager.devcluster.storage import StorageState, Stored

PODS = "pods"


def stored(name: str, version: int) -> Stored:
    metadata = {
        "name": name,
        "namespace": "n",
        "uid": name,
        "resourceVersion": str(version),
    }
    return Stored({"kind": "Pod", "apiVersion": "v1", "metadata": metadata}, version)


def state_with(version: int, *objects: Stored) -> StorageState:
    pods = {("n", each.obj["metadata"]["name"]): each for each in objects}
    return StorageState(version, {PODS: pods} if pods else {}, {"x": 7})


def contents(state: StorageState) -> dict[str, int]:
    return {
        key[1]: each.version
        for objects in state.objects.values()
        for key, each in objects.items()
    }


def test_it_has_the_written_state_and_the_same_keys(tmp_path: Path) -> None:
    """It is one file, which only its owner can read."""
    path = tmp_path / "data"
    with DataFile.open(path) as file:
        keys, token = file.keys, file.admin_token
        file.write(state_with(5, stored("a", 4), stored("b", 5)))
        file.port = 1234
        file.write(state_with(7, stored("a", 6)), is_final=True)
    assert path.stat().st_mode & 0o777 == 0o600
    with DataFile.open(path) as file:
        state = file.state()
        assert (state.version, contents(state)) == (7, {"a": 6})
        assert state.objects[PODS]["n", "a"].obj == stored("a", 6).obj
        assert state.numbers == {"x": 7}
        assert (file.keys.authority.certificate, file.admin_token, file.port) == (
            keys.authority.certificate,
            token,
            1234,
        )
        assert file.keys.account_key_pem() == keys.account_key_pem()
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_a_data_file_is_a_snapshot_with_keys(tmp_path: Path) -> None:
    path, plain = tmp_path / "data", tmp_path / "snapshot"
    state = state_with(7, stored("a", 6))
    with DataFile.open(path) as file:
        file.write(state, is_final=True)
    write_snapshot(plain, state)
    first, *lines = path.read_bytes().splitlines()
    of_snapshot, *expected = plain.read_bytes().splitlines()
    assert lines == expected
    header = json.loads(first)
    assert sorted(header.pop("cluster")) == [
        "accountKey",
        "adminToken",
        "authority",
        "authorityKey",
        "isFinal",
    ]
    assert header == json.loads(of_snapshot)
    assert contents(read_snapshot(path)) == {"a": 6}


def test_after_a_crash_no_version_is_used_twice(tmp_path: Path) -> None:
    with DataFile.open(tmp_path / "data") as file:
        file.write(state_with(5, stored("a", 5)))
    for _ in range(2):
        with DataFile.open(tmp_path / "data") as file:
            assert file.state().version == 5 + RESERVE


def test_the_draft_of_a_killed_cluster_does_not_stay(tmp_path: Path) -> None:
    with DataFile.open(tmp_path / "data") as file:
        file.write(state_with(5, stored("a", 5)))
    (tmp_path / ".data.new").write_bytes(b"a part")
    with DataFile.open(tmp_path / "data") as file:
        assert contents(file.state()) == {"a": 5}
        file.write(file.state())
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_another_process_is_told_that_the_file_is_in_use(tmp_path: Path) -> None:
    """So is another cluster of this process; the first one goes on."""
    path = tmp_path / "data"
    with DataFile.open(path) as file:
        for version in (5, 6):
            with pytest.raises(DataError, match=f"^{path}: is in use by another devel"):
                DataFile.open(path)
            file.write(state_with(version, stored("a", version)))
    with DataFile.open(path) as file:
        assert contents(file.state()) == {"a": 6}


def a_text(path: Path) -> None:
    path.write_text("apiVersion: v1\n")


def an_sqlite_file(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE objects (x)")
    connection.close()


def a_newer_one(path: Path) -> None:
    DataFile.open(path).close()
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2', 1))


def a_plain_snapshot(path: Path) -> None:
    write_snapshot(path, state_with(5, stored("a", 5)))


def a_shortened_one(path: Path) -> None:
    with DataFile.open(path) as file:
        file.write(state_with(9, *(stored(f"pod-{each}", 9) for each in range(5))))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))


def one_with_a_damaged_object(path: Path) -> None:
    with DataFile.open(path) as file:
        file.write(state_with(9, stored("a", 9)))
    path.write_bytes(path.read_bytes()[:-9])


def one_with_damaged_keys(path: Path) -> None:
    DataFile.open(path).close()
    path.write_bytes(path.read_bytes().replace(b'"accountKey":"-', b'"accountKey":"+'))


def in_no_directory(path: Path) -> None:
    path.parent.rmdir()


def a_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (a_text, "is not a data file of a development cluster; name another file"),
        (an_sqlite_file, "is a data file of version 0.3 or earlier, or a file of anot"),
        (a_newer_one, "it has version 2 of the format, and this version of controller"),
        (a_plain_snapshot, "is a snapshot without keys, not a data file; restore it"),
        (a_shortened_one, "is damaged, and was left as it is: it has 4 of 5 objects"),
        (one_with_a_damaged_object, "is damaged, and was left as it is: line 2 has no"),
        (one_with_damaged_keys, "is damaged, and was left as it is: its keys: "),
        (in_no_directory, "there is no directory"),
        (a_directory, "cannot be opened: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_stays(
    tmp_path: Path, make: Callable[[Path], None], message: str
) -> None:
    path = tmp_path / "its" / "data"
    path.parent.mkdir()
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    for _ in range(2):
        with pytest.raises(DataError) as raised, DataFile.open(path) as file:
            file.state()
    assert str(raised.value).startswith(f"{path}: {message}")
    assert "\n" not in str(raised.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_state_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "its" / "data"
    path.parent.mkdir()
    with DataFile.open(path) as file:
        file.write(state_with(5, stored("a", 5)), is_final=True)
        unwritable = Stored({"metadata": {"name": "b"}, "x": object()}, 6)
        with pytest.raises(TypeError):
            file.write(state_with(6, stored("a", 5), unwritable))
        path.parent.rename(tmp_path / "away")
        with pytest.raises(DataError, match="cannot be written: No such file"):
            file.write(state_with(6))
        (tmp_path / "away").rename(path.parent)
        assert contents(file.state()) == {"a": 5}
        assert file.state().version == 5
        with pytest.raises(DataError, match="is in use"):
            DataFile.open(path)
    assert [each.name for each in path.parent.iterdir()] == ["data"]
