"""``python -m tests.conformance`` shows what sets a played scenario apart."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from controller_manager.api.json_objects import JSON
from tests.conformance import comparison
from tests.conformance.__main__ import main
from tests.conformance.recordings import ALL_RECORDINGS, Recording


def write(verb: str, name: str, body: Any = None) -> JSON:
    return {"verb": verb, "resource": "pods", "name": name, "code": 200, "body": body}


def test_writes_stand_beside_upstreams() -> None:
    """In upstream's order; what differs has both values, the recorded first."""
    recorded = [
        write("update", "a", {"x": 1}),
        write("delete", "b"),
        write("patch", "c"),
    ]
    ours = [
        write("patch", "a", {"x": 2}),
        write("create", "d", {}),
        write("patch", "c"),
    ]
    assert list(comparison.of_writes(ours, recorded)) == [
        "~ 200 update pods a",
        "      body.x: 1 | 2",
        '- 200 delete pods b  {"body": null}',
        '+ 200 create pods d  {"body": {}}',
        "= 200 patch pods c",
    ]


def test_a_checkpoint_that_is_missing_is_a_difference() -> None:
    recorded: list[JSON] = [{"check": "one", "state": {"Pod": [1]}}, {"evict": 201}]
    ours = [{"check": "one", "state": {"Pod": [2]}}]
    assert list(comparison.of_checkpoints(ours, recorded)) == [
        "at 'one': state.Pod.0: 1 | 2",
        "at '': evict: 201 | null",
    ]


def changed(path: Path, recording: Recording, **content: Any) -> Recording:
    """Return a recording that differs from another one in some fields."""
    family = path / recording.family
    family.mkdir()
    (family / "ARGS").write_text((recording.path.parent / "ARGS").read_text())
    read = json.loads(recording.path.read_text())
    copy = family / recording.path.name
    copy.write_text(json.dumps({**read, **content}))
    return Recording(copy)


def test_a_recording_that_comes_out_the_same_has_no_differences() -> None:
    result = CliRunner().invoke(main, ["podgc-never-bound", "--writes"])
    assert result.exit_code == 0
    assert "Checkpoints (recorded | ours)\n  none\n" in result.output
    assert "  = 200 delete pods unbound\n" in result.output
    assert result.output.endswith("6 writes, 6 of upstream\n")


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ({"checkpoints": []}, "at 'both terminating, phase Pending': check: null | "),
        ({"steps": [{"pods": {"n": 1, "timeout": 1}}]}, "({'n': 1, 'timeout': 1}, [])"),
    ],
)
def test_what_differs_is_shown(
    content: JSON, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "podgc-never-bound"
    recording = changed(tmp_path, ALL_RECORDINGS[name], **content)
    monkeypatch.setitem(ALL_RECORDINGS, name, recording)
    result = CliRunner().invoke(main, [name])
    assert (result.exit_code, shown in result.output) == (1, True), result.output
