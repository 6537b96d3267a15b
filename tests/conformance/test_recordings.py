"""The recordings lie in one place, each in a family."""

from pathlib import Path

import pytest

from tests.conformance.recordings import DIRECTORY, RECORDINGS, find_recordings


def test_every_recording_is_found() -> None:
    """Whatever its family; none lies elsewhere."""
    everywhere = DIRECTORY.parent.rglob("*/*.json")
    assert {each.path for each in RECORDINGS.values()} == set(everywhere)


def test_a_recording_runs_the_controllers_that_ran_when_it_was_made() -> None:
    """All of them, unless its family's ARGS says otherwise."""
    assert {each.family: each.controllers for each in RECORDINGS.values()} == {
        "apps": ("deployment-controller", "replicaset-controller"),
        "lifecycle": ("*",),
    }


def test_a_flag_that_the_player_cannot_set_is_named(tmp_path: Path) -> None:
    """With the family whose recordings would come out differently."""
    family = tmp_path / "nodes"
    family.mkdir()
    (family / "ARGS").write_text("--controllers=a,b --node-monitor-period=1s")
    (family / "one.json").write_text("{}")
    recording = find_recordings(tmp_path)["one"]
    with pytest.raises(
        ValueError,
        match=r"^recordings/nodes/ARGS: the player cannot set --node-monitor-period$",
    ):
        recording.config()
