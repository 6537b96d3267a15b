"""Snapshots as files of text."""

import json
from pathlib import Path

import pytest

from controller_manager.devcluster.cli.running import restore_data, snapshot_of_data
from controller_manager.devcluster.snapshot import (
    DataError,
    DataFile,
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    write_snapshot,
)
from controller_manager.devcluster.storage import Storage, StorageState, state_of

OF_FORMAT_1 = b"""\
{"format":"controller-manager devcluster snapshot","version":1,"kubernetes":"v1.36.2",\
"resourceVersion":"512","objects":2,"numbers":{"addresses of 10.96.0.0/12":4}}
{"resource":"namespaces","object":{"kind":"Namespace","apiVersion":"v1",\
"metadata":{"name":"n","uid":"1","resourceVersion":"3"},"status":{"phase":"Active"}}}
{"resource":"widgets.example.com","object":{"kind":"Widget",\
"apiVersion":"example.com/v1","metadata":{"name":"w","uid":"2",\
"namespace":"n","resourceVersion":"512"},"size":1.5}}
"""
"""A snapshot of the first version, which every later version reads."""


def some_state() -> StorageState:
    storage = Storage()
    for number in range(450):
        metadata = {"name": f"pod-{number}", "uid": str(number), "namespace": "n"}
        obj = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "é\n": [1.5]}
        storage.collection("pods").put(("n", f"pod-{number}"), obj)
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a", "uid": "u"}}
    storage.collection("nodes").put(("", "a"), node)
    storage.next_number("addresses")
    return state_of(storage)


def as_json(state: StorageState) -> list[object]:
    objects = {
        resource: {key: (each.version, each.obj) for key, each in found.items()}
        for resource, found in state.objects.items()
    }
    return [state.version, state.numbers, objects]


def test_a_snapshot_is_read_as_it_was_written(tmp_path: Path) -> None:
    """One line for each object; only its owner can read the file."""
    state, path = some_state(), tmp_path / "snapshot"
    write_snapshot(path, state)
    assert as_json(read_snapshot(path)) == as_json(state)
    assert len(path.read_bytes().splitlines()) == 452
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_first_format_is_still_read_and_written() -> None:
    state = decode_snapshot(OF_FORMAT_1)
    assert (state.version, state.numbers) == (512, {"addresses of 10.96.0.0/12": 4})
    assert state.objects["widgets.example.com"]["n", "w"].obj["size"] == 1.5
    again = [json.loads(each) for each in b"".join(encode_snapshot(state)).splitlines()]
    assert again == [json.loads(each) for each in OF_FORMAT_1.splitlines()]


def test_the_fields_of_an_object_may_stand_in_any_order() -> None:
    """A user may have edited a snapshot; lists cut the first two fields off."""
    usual, other = b'"kind":"Namespace","apiVersion":"v1"', b'"kind":"Namespace"'
    swapped = OF_FORMAT_1.replace(usual, b'"apiVersion":"v1",' + other)
    assert swapped != OF_FORMAT_1
    (found,) = decode_snapshot(swapped).objects["namespaces"].values()
    assert list(found.obj)[:2] == ["kind", "apiVersion"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "it is not a snapshot of a development cluster"),
        (b"\x1f\x8b\n\n", "it is not a snapshot of a development cluster"),
        (b'{"format":"other","version":1}\n', "it is not a snapshot of a development"),
        (
            OF_FORMAT_1.replace(b'"version":1', b'"version":2'),
            "it has version 2 of the format, and this version of controller-manager ",
        ),
        (
            OF_FORMAT_1[: OF_FORMAT_1.rindex(b'{"resource')],
            "it has 1 of 2 objects: a part of it is missing",
        ),
        (OF_FORMAT_1[:-20], "line 3 has no object of a snapshot: "),
        (
            OF_FORMAT_1.replace(b'"name":"n",', b""),
            "line 2 has no object of a snapshot: Object missing required field `name`",
        ),
        (
            OF_FORMAT_1.replace(b'"kind":"Widget",', b""),
            "line 3 has no object of a snapshot: Object missing required field `kind`",
        ),
        (
            OF_FORMAT_1.replace(b'"namespace":"n",', b'"managedFields":[1],'),
            "line 3 has no object of a snapshot: Expected `object`, got `int`",
        ),
        (OF_FORMAT_1.replace(b'"3"', b'"x"'), "line 2 has no object of a snapshot: "),
    ],
)
def test_a_file_that_is_no_snapshot_gives_one_line(
    tmp_path: Path, text: bytes, message: str
) -> None:
    path = tmp_path / "snapshot"
    path.write_bytes(text)
    with pytest.raises(DataError) as raised:
        read_snapshot(path)
    assert str(raised.value).startswith(f"{path}: {message}")
    assert "\n" not in str(raised.value)


def test_a_data_file_is_restored_with_higher_versions(tmp_path: Path) -> None:
    """It is created if it is missing; its old objects are gone, but the keys stay."""
    data, first, second = (tmp_path / each for each in ("data", "first", "second"))
    first.write_bytes(OF_FORMAT_1)
    assert restore_data(data, first) == 2
    with DataFile.open(data) as file:
        token, version = file.admin_token, file.state().version
    assert version > 1
    write_snapshot(second, some_state())
    assert restore_data(data, second) == 451
    with DataFile.open(data) as file:
        state = file.state()
        assert file.admin_token == token
    assert sorted(state.objects) == ["nodes", "pods"]
    assert min(each.version for each in state.objects["pods"].values()) > version
    assert snapshot_of_data(data, first) == 451
    assert as_json(read_snapshot(first)) == as_json(state)


def test_only_a_data_file_that_exists_has_a_snapshot(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="missing: there is no such file"):
        snapshot_of_data(tmp_path / "missing", tmp_path / "snapshot")
    with pytest.raises(DataError, match="nowhere/x: cannot be written: No such file"):
        write_snapshot(tmp_path / "nowhere" / "x", some_state())
    assert list(tmp_path.iterdir()) == []
