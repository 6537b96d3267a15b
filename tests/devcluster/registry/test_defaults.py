"""Defaults as a mapping, and those of the kinds.

``devcluster/defaults.yaml`` has new objects as a real API server stores them.
"""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import fill
from tests.clusters import Cluster
from tests.devcluster.registry.requests import create

FILE: Final = Path(__file__).parents[2] / "data" / "devcluster" / "defaults.yaml"
STORED: Final = yaml.load(FILE.read_text(), yaml.CSafeLoader)


@pytest.mark.parametrize(
    ("obj", "defaults", "filled"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 0}, {"a": 1}, {"a": 0}),
        ({"b": {"x": 1}}, {"b": {"c": 2}}, {"b": {"x": 1, "c": 2}}),
        ({}, {"b": {"c": 2}}, {}),
        ({}, {"spec": {"c": 2}}, {"spec": {"c": 2}}),
        ({"d": [{}, {"e": 1}]}, {"d[]": {"e": 3}}, {"d": [{"e": 3}, {"e": 1}]}),
        ({}, {"a": {}, "b": []}, {"a": {}, "b": []}),
    ],
)
def test_absent_fields_are_filled_in(
    obj: JSON, defaults: dict[str, Any], filled: JSON
) -> None:
    """Only the spec is made; another absent object stays absent."""
    fill(obj, defaults)
    assert obj == filled


def test_two_objects_share_no_default() -> None:
    """A later change of one object must not change the other."""
    first: JSON = {}
    second: JSON = {}
    for each in (first, second):
        fill(each, {"a": {}, "b": [1]})
    assert first["a"] is not second["a"]
    assert first["b"] is not second["b"]


@pytest.mark.looptime
@pytest.mark.parametrize("case", STORED, ids=lambda each: str(each["kind"]))
async def test_a_new_object_has_the_defaults_of_its_kind(
    cluster: Cluster, case: JSON
) -> None:
    """All its fields; lists that Go shows as null, and canonical quantities."""
    created = create(cluster, case["kind"], case.get("given"))
    head = ("kind", "apiVersion", "metadata")
    assert {k: v for k, v in created.items() if k not in head} == case["stored"]
