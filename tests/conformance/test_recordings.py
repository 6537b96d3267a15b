"""The recordings are in one directory, each in a family."""

from pathlib import Path

import pytest

from controller_manager.registry import registry
from tests.conformance.deliberate import AMENDMENTS
from tests.conformance.objects import path_of
from tests.conformance.recordings import (
    ALL_RECORDINGS,
    DIRECTORY,
    FAULTS,
    RECORDINGS,
    find_recordings,
)


def test_every_recording_is_found() -> None:
    files = set(DIRECTORY.rglob("*.json"))
    assert {each.path for each in ALL_RECORDINGS.values()} == files


def test_a_kind_has_the_path_with_which_it_was_recorded() -> None:
    """Recordings name the paths of kinds that a server does not have by default."""
    for recording in ALL_RECORDINGS.values():
        for kind, (prefix, plural, namespaced) in recording.custom_kinds.items():
            middle = "/namespaces/n" if namespaced else ""
            assert path_of(kind, "n") == f"{prefix}{middle}/{plural}"


def test_a_recording_is_left_out_only_while_its_controllers_are_absent() -> None:
    """It is played from the moment on in which the last of them is in this build."""
    names = set(registry().names)
    for name in ALL_RECORDINGS.keys() - RECORDINGS.keys() - FAULTS.keys():
        recording = ALL_RECORDINGS[name]
        assert not names.issuperset(recording.needs), name


def test_what_only_shows_a_fault_of_upstream_has_tests_of_its_own() -> None:
    """They say what this build does instead."""
    assert FAULTS.keys() <= ALL_RECORDINGS.keys()
    root = Path(__file__).parents[2]
    assert [each for each in FAULTS.values() if not (root / each).exists()] == []


def test_a_recording_is_amended_only_for_a_documented_difference() -> None:
    """It names the row of docs/differences.md, and would come out otherwise."""
    rows = (Path(__file__).parents[2] / "docs" / "differences.md").read_text()
    for name, amendment in AMENDMENTS.items():
        assert f"| {amendment.difference}" in rows
        assert name in ALL_RECORDINGS


def test_a_recording_runs_with_the_flags_with_which_it_was_made() -> None:
    configs = {
        each.family: each.config()
        for each in RECORDINGS.values()
        if each.family in ("apps", "lifecycle", "podgc")
    }
    assert {
        family: (each.generic.controllers, each.flags["terminated-pod-gc-threshold"])
        for family, each in configs.items()
    } == {
        "apps": (("deployment-controller", "replicaset-controller"), "12500"),
        "lifecycle": (("*",), "12500"),
        "podgc": (("*",), "4"),
    }


def test_a_flag_that_there_is_not_is_named(tmp_path: Path) -> None:
    """Otherwise the recordings of that family would end differently."""
    family = tmp_path / "nodes"
    family.mkdir()
    (family / "ARGS").write_text("--controllers=ttl-controller --node-speed=1s")
    (family / "one.json").write_text("{}")
    recording = find_recordings(tmp_path)["one"]
    with pytest.raises(ValueError, match=r"^recordings/nodes/ARGS: --node-speed"):
        recording.config()


def test_a_recording_that_says_more_than_is_understood_is_refused(
    tmp_path: Path,
) -> None:
    """Otherwise it would end differently for no visible reason."""
    (tmp_path / "hpa").mkdir()
    (tmp_path / "hpa" / "one.json").write_text('{"steps": [], "copies": 2}')
    recording = find_recordings(tmp_path)["one"]
    with pytest.raises(
        ValueError, match=r"^recordings/hpa/one\.json: what is copies\?$"
    ):
        assert recording.steps


def test_the_nodes_of_a_recording_of_volumes_renew_their_leases() -> None:
    """They would be lost in a play that takes longer than the recording did."""
    steps = ALL_RECORDINGS["vol-multi-attach"].steps
    beats = [each["heartbeat"] for each in steps if "heartbeat" in each]
    first, second = (f"vol-multi-attach-n{number}" for number in (1, 2))
    assert beats == [[first], [first, second]]
