"""Objects of kinds that have no explanation of their own."""

from typing import Any

import pytest

from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.api.meta import AnyResource, PartialObject, Resource
from controller_manager.explain.cause import State
from controller_manager.explain.explainer import explain_all
from tests.clusters import Cluster
from tests.explain.given import NOW, Chain, Given, before, chains, explained, named
from tests.explain.test_objects import view_of

pytestmark = pytest.mark.looptime

WIDGETS: AnyResource = Resource(
    "example.com", "v1", "widgets", "Widget", PartialObject, metadata_only=True
)


def condition(name: str, status: str, minutes: int = 30) -> dict[str, Any]:
    return {
        "type": name,
        "status": status,
        "reason": "Because",
        "message": "No disk.",
        "lastTransitionTime": before(minutes),
    }


def says(state: State) -> list[Chain]:
    return [("StatusSaysSo", state, [])]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, []),
        ({"conditions": [condition("Ready", "True")]}, []),
        ({"conditions": [condition("Custom", "False")]}, []),
        ({"conditions": [condition("Ready", "False")]}, says(State.STUCK)),
        ({"conditions": [condition("Ready", "Unknown")]}, says(State.STUCK)),
        ({"conditions": [condition("Stalled", "True")]}, says(State.STUCK)),
        (
            {
                "conditions": [
                    condition("Ready", "False"),
                    condition("Reconciling", "True"),
                ]
            },
            says(State.PROGRESSING),
        ),
        ({"phase": "Failed"}, says(State.STUCK)),
        ({"phase": "Running"}, []),
        ({"observedGeneration": 2}, []),
        ({"observedGeneration": 1}, [("ControllerAbsent", State.STUCK, [])]),
    ],
)
async def test_a_custom_resource_is_as_its_status_says(
    cluster: Cluster, status: dict[str, Any], expected: list[Chain]
) -> None:
    body = {"metadata": named("a", generation=2), "status": status}
    found = await explained(cluster, WIDGETS, body, Given())
    assert chains(found.causes) == expected


async def test_the_words_of_a_condition_are_in_the_answer(cluster: Cluster) -> None:
    body = {
        "metadata": named("a"),
        "status": {"conditions": [condition("Ready", "False")]},
    }
    (cause,) = (await explained(cluster, WIDGETS, body, Given())).causes
    assert (cause.what, cause.field, cause.since, cause.remedy) == (
        "the condition Ready is False: No disk",
        "status.conditions[Ready]",
        before(30),
        "look at the log of the controller of example.com",
    )


def stuck_claim(owner: str) -> dict[str, Any]:
    reference = {"kind": "Widget", "name": owner, "uid": f"uid-of-{owner}"}
    references = [{**reference, "controller": True}]
    return {
        "metadata": named("data", ownerReferences=references),
        "spec": {"volumeName": "disk"},
        "status": {"phase": "Lost"},
    }


async def test_a_custom_resource_is_as_stuck_as_its_objects(
    cluster: Cluster,
) -> None:
    server = Given(persistentvolumeclaims=[stuck_claim("a")])
    ready = {"conditions": [condition("Ready", "True")]}
    body = {"metadata": named("a"), "status": ready}
    found = await explained(cluster, WIDGETS, body, server)
    lost: Chain = ("VolumeLost", State.STUCK, [])
    assert chains(found.causes) == [("DependentWaits", State.STUCK, [lost])]
    assert str(found.causes[0].object) == "PersistentVolumeClaim shop/data"


async def test_a_workload_of_a_custom_resource_is_among_all(cluster: Cluster) -> None:
    space = {"metadata": {"name": "shop", "uid": "u"}}
    server = Given(persistentvolumeclaims=[stuck_claim("a")], namespaces=[space])
    found = await explain_all(view_of(cluster, server), "shop")
    assert [str(each.object) for each in found if each.state is State.STUCK] == [
        "PersistentVolumeClaim shop/data"
    ]


OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, []),
        (
            {"ownerReferences": [{**OWNER, "uid": "uid-of-web", "controller": True}]},
            [("HasOwner", State.HEALTHY, [])],
        ),
        (
            {"ownerReferences": [{**OWNER, "uid": "of-an-earlier-one"}]},
            [("OwnerGone", State.PROGRESSING, [])],
        ),
        (
            {"ownerReferences": [{**OWNER, "name": "gone", "uid": "x"}]},
            [("OwnerGone", State.PROGRESSING, [])],
        ),
        (
            {"finalizers": ["example.com/x"]},
            [("HasFinalizer", State.HEALTHY, [])],
        ),
        (
            {"finalizers": ["example.com/x"], "deletionTimestamp": before(5)},
            [("HeldByFinalizer", State.STUCK, [])],
        ),
        ({"deletionTimestamp": NOW}, [("BeingDeleted", State.PROGRESSING, [])]),
    ],
)
async def test_any_object_has_an_answer(
    cluster: Cluster, metadata: dict[str, Any], expected: list[Chain]
) -> None:
    server = Given(deployments=[{"metadata": named("web")}])
    body = {"metadata": named("settings", **metadata), "data": {"Ready": "False"}}
    found = await explained(cluster, CONFIG_MAPS, body, server)
    assert chains(found.causes) == expected
