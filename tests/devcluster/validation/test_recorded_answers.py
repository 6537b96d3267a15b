"""Damaged objects of every kind, and the causes that a server finds in them.

Each file has cases: a merge patch that changes the minimal object of a kind, for
updates another that makes the object before, and the causes of each check in order.
"""

import copy
import json
from pathlib import Path
from typing import Final

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind, to_stored
from controller_manager.devcluster.apiserver.updating import patched
from controller_manager.devcluster.registry import kinds_with
from controller_manager.devcluster.scheme.decoding import Decoder
from controller_manager.devcluster.scheme.statuses import Cause
from tests.client.leadership.elections import COORDINATED
from tests.devcluster.registry.minimal import minimal

FILES: Final = Path(__file__).parents[2] / "data" / "devcluster" / "validation"
CASES: Final[list[JSON]] = [
    case
    for file in sorted(FILES.glob("*.json"))
    for case in json.loads(file.read_text())
]
KINDS: Final = {
    f"{kind.group}/{kind.kind}".removeprefix("/"): kind
    for kind in sorted(kinds_with(COORDINATED), key=lambda each: not each.conversion)
}
"""The stored version of each kind, which stands after the others."""


def damaged(kind: Kind, change: JSON) -> JSON:
    """Return the minimal object of a kind, changed, in the form that rules see."""
    obj = patched(
        minimal(kind), copy.deepcopy(change), "application/merge-patch+json", kind
    )
    if kind.type_name:
        obj = Decoder().decode(obj, kind.type_name)
    kind.apply_defaults(obj)
    obj["metadata"].setdefault("uid", "u-1")
    return to_stored(kind, obj) if kind.conversion else obj


def texts(causes: list[Cause]) -> list[str]:
    return [str(each) for each in causes]


@pytest.mark.parametrize("name", sorted({case["kind"] for case in CASES}))
def test_the_causes_are_the_recorded_ones(name: str) -> None:
    kind = KINDS[name]
    strategy = kind.strategy
    for case in (each for each in CASES if each["kind"] == name):
        new, old = (
            damaged(kind, case["change"]),
            damaged(kind, case.get("before", {})),
        )
        answers = {
            "validate": strategy.validate(new),
            "validate_new": strategy.validate_new(new),
            "validate_update": strategy.validate_update(old, new),
            "validate_status": strategy.validate_status(new),
            "validate_status_update": strategy.validate_status_update(old, new),
            "validate_name": strategy.validate_name(new["metadata"].get("name", "")),
        }
        found = {each: texts([*causes]) for each, causes in answers.items()}
        assert {each: said for each, said in found.items() if said} == case["says"]
