"""Steps select pods as the tool that made the recordings does."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.conformance.selection import field, select


def pod(name: str, age: int = 0, image: str = "app:v1", **parts: Any) -> JSON:
    """Return a pod that was created `age` seconds before the youngest."""
    metadata = parts.pop("metadata", {})
    spec = parts.pop("spec", {})
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": f"2026-01-01T00:00:{59 - age}Z",
            **metadata,
        },
        "spec": {"containers": [{"image": image}], **spec},
        "status": parts,
    }


def asking_for(node: str) -> JSON:
    term = {"matchFields": [{"key": "metadata.name", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
        }
    }


READY = [{"type": "Ready", "status": "True"}]
INDEX = {"batch.kubernetes.io/job-completion-index": "2"}
PODS = [
    pod("young", phase="Pending"),
    pod("old", 3, image="app:v2", phase="Running", conditions=READY),
    pod("second", 2, metadata={"annotations": INDEX}),
    pod("bound", 1, spec={"nodeName": "n1"}),
    pod("asks", 1, spec=asking_for("n1")),
    pod("dying", metadata={"deletionTimestamp": "2026-01-01T00:00:59Z"}),
]


@pytest.mark.parametrize(
    ("step", "names"),
    [
        ({}, ["old", "second", "asks", "bound", "young"]),
        ({"count": 2}, ["old", "second"]),
        ({"name": "bound"}, ["bound"]),
        ({"image": "app:v2"}, ["old"]),
        ({"phase_is": "Pending"}, ["young"]),
        ({"index": 2}, ["second"]),
        ({"index": 0}, []),
        ({"on": "n1"}, ["asks", "bound"]),
        ({"isready": True}, ["old"]),
        ({"unready": True, "count": 1}, ["second"]),
        ({"terminating": True}, ["dying"]),
    ],
)
def test_a_step_is_about_pods(step: JSON, names: list[str]) -> None:
    """Oldest first; those that are being deleted only when it says so."""
    assert [each["metadata"]["name"] for each in select(PODS, step)] == names


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a", [{"b": 1}, {"b": 2}, {}]),
        ("a.b", [1, 2, None]),
        ("c.d", {"e": 0}),
        ("c.d.e", 0),
        ("c.x", None),
        ("c.x.y", None),
        ("c.d.e.f", None),
    ],
)
def test_a_field_of_a_list_is_that_of_each_entry(path: str, value: Any) -> None:
    """An absent field has no value."""
    obj = {"a": [{"b": 1}, {"b": 2}, {}], "c": {"d": {"e": 0}}}
    assert field(obj, path) == value
