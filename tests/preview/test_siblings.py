"""A difference counts only if both managers knew the same objects of the owner."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.json_objects import JSON
from controller_manager.clock import LoopClock
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import PreviewConfig
from controller_manager.preview.findings import Findings, PreviewMetrics
from controller_manager.preview.overlay import Overlay
from controller_manager.preview.target import Collection, Target
from tests.clusters import EPOCH

pytestmark = pytest.mark.looptime

REPLICA_SETS = Collection("apps", "replicasets")
REVISION = "deployment.kubernetes.io/revision"


def overlay() -> Overlay:
    clock, settings = LoopClock(EPOCH), PreviewConfig()
    metrics = PreviewMetrics(CollectorRegistry())
    findings = Findings(
        clock,
        metrics,
        silent_logger(),
        grace=settings.grace,
        most=settings.most_findings,
    )
    return Overlay(settings, clock, findings)


def replica_set(name: str, revision: str, second: int = 0, owner: str = "web") -> JSON:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": "a",
            "uid": f"uid of {name}",
            "resourceVersion": "7",
            "creationTimestamp": f"{EPOCH:%Y-%m-%dT%H:%M}:{second:02}Z",
            "annotations": {REVISION: revision},
            "ownerReferences": [{"uid": owner, "controller": True}],
        },
    }


def target(name: str) -> Target:
    return Target(REPLICA_SETS, "v1", "a", name)


def decide(tested: Overlay, name: str, revision: str) -> None:
    """Have the preview create a replica set."""
    sent = replica_set(name, revision)
    made: dict[str, Any] = {**sent["metadata"], "uid": f"invented for {name}"}
    tested.create(target(name), "deployment-controller", sent, {"metadata": made})


def show(tested: Overlay, obj: JSON) -> None:
    """Have a watch show a new object of the server."""
    tested.observe(target(obj["metadata"]["name"]), obj, is_new=True)


def knew_the_same(tested: Overlay, obj: JSON) -> bool:
    """Show the created object of the server, which has another revision."""
    show(tested, obj)
    mismatch = tested.creations.mismatches[target(obj["metadata"]["name"]).key]
    assert [path[-1] for path in mismatch.fields] == [REVISION]
    return tested.creations.saw_the_same(mismatch, obj)


async def test_a_difference_without_other_objects_counts() -> None:
    tested = overlay()
    decide(tested, "new", "2")
    assert knew_the_same(tested, replica_set("new", "3"))


async def test_a_difference_does_not_count_if_an_older_object_was_seen_late() -> None:
    tested = overlay()
    decide(tested, "new", "2")
    await asyncio.sleep(1)
    show(tested, replica_set("old", "2", second=3))
    assert not knew_the_same(tested, replica_set("new", "3", second=4))


async def test_a_difference_counts_if_the_older_object_was_known() -> None:
    tested = overlay()
    show(tested, replica_set("old", "2", second=3))
    await asyncio.sleep(5)
    decide(tested, "new", "2")
    await asyncio.sleep(1)
    show(tested, replica_set("old", "2", second=3))
    assert knew_the_same(tested, replica_set("new", "3", second=6))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replica_set("later", "4", second=5), id="a younger object"),
        pytest.param(replica_set("b", "2", second=3, owner="b"), id="another owner"),
    ],
)
async def test_a_difference_counts_beside(other: JSON) -> None:
    tested = overlay()
    decide(tested, "new", "2")
    await asyncio.sleep(1)
    show(tested, other)
    assert knew_the_same(tested, replica_set("new", "3", second=4))


async def test_a_difference_does_not_count_if_only_the_preview_made_another_one() -> (
    None
):
    tested = overlay()
    decide(tested, "between", "2")
    await asyncio.sleep(1)
    decide(tested, "new", "3")
    assert not knew_the_same(tested, replica_set("new", "2"))


async def test_an_object_that_both_managers_made_is_known() -> None:
    tested = overlay()
    decide(tested, "old", "2")
    await asyncio.sleep(1)
    decide(tested, "new", "3")
    show(tested, replica_set("old", "2", second=2))
    assert knew_the_same(tested, replica_set("new", "4", second=3))


async def test_a_sibling_that_the_preview_alone_has_changed_was_not_known() -> None:
    """It has a higher number there, so the next one has a higher number, too."""
    tested = overlay()
    old = replica_set("web-1", "1")
    show(tested, old)
    raised = {**old, "metadata": {**old["metadata"], "annotations": {REVISION: "3"}}}
    tested.write(target("web-1"), "deployment-controller", old, raised)
    await asyncio.sleep(1)
    decide(tested, "web-2", "4")
    tested.observe_gone(target("web-1"), old)
    assert not knew_the_same(tested, replica_set("web-2", "2", second=2))
