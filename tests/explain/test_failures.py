"""Events that repeat a failure end the state in progress."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.core.resources import RESOURCE_QUOTAS
from controller_manager.api.core.services import SERVICES
from controller_manager.explain.cause import State
from tests.clusters import Cluster
from tests.explain.given import (
    NOW,
    Chain,
    Given,
    before,
    chains,
    event,
    explained,
    named,
)

pytestmark = pytest.mark.looptime

LABELS = {"app": "web"}
SPEC = {"selector": {"matchLabels": LABELS}, "template": {"metadata": {}, "spec": {}}}
ENDPOINTS = {
    "metadata": {"name": "web-1", "namespace": "shop"},
    "endpoints": [{"targetRef": {"name": "web"}, "addresses": ["10.0.0.1"]}],
}
FAILS: Chain = ("FailsAgain", State.STUCK, [])


def failed(
    at: str = before(1),
    count: int = 9,
    first: str = before(9),
    reason: str = "FailedUpdate",
    source: str = "a-controller",
    **more: Any,
) -> dict[str, Any]:
    found = event(reason, "No way.", at, uid="uid-of-web")
    warning = {"type": "Warning", "count": count, "firstTimestamp": first, **more}
    return {**found, **warning, "source": {"component": source}}


def succeeded(
    at: str, source: str = "a-controller", reason: str = "SuccessfulUpdate"
) -> dict[str, Any]:
    return {**failed(at, reason=reason, source=source), "type": "Normal"}


SERIES = {"count": 5, "lastObservedTime": before(1)}
IN_PROGRESS: Chain = ("PodsMissing", State.PROGRESSING, [])
STUCK: Chain = ("PodsMissing", State.STUCK, [FAILS])


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([failed()], STUCK),
        # Other messages of one reason, such as those about pods with random names.
        ([failed(count=1), failed(before(2), 1), failed(before(3), 1)], STUCK),
        ([failed(count=0, first="", series=SERIES)], STUCK),
        ([failed(count=2)], IN_PROGRESS),
        ([failed(), succeeded(before(2))], STUCK),
        ([failed(before(2)), succeeded(before(1))], IN_PROGRESS),
        ([failed(before(2)), succeeded(before(1), "another")], STUCK),
        # Only the same step is a success; of some failures other steps are a part.
        ([failed(), succeeded(NOW, reason="SuccessfulCreate")], STUCK),
        (
            [
                failed(reason="RecreatingFailedPod"),
                succeeded(NOW, reason="SuccessfulCreate"),
            ],
            STUCK,
        ),
        (
            [failed(reason="FailedMount"), succeeded(NOW, reason="Pulled")],
            IN_PROGRESS,
        ),
        # It has not failed again for longer than it failed.
        ([failed(before(9), first=before(10))], IN_PROGRESS),
        ([failed(before(25), first=before(55))], IN_PROGRESS),
        ([failed(before(15), first=before(35))], STUCK),
    ],
)
async def test_an_object_whose_events_repeat_a_failure_is_stuck(
    cluster: Cluster, events: list[Any], expected: Chain
) -> None:
    body = {
        "metadata": named("web", generation=1),
        "spec": {**SPEC, "replicas": 1},
        "status": {"observedGeneration": 1},
    }
    found = await explained(cluster, REPLICASETS, body, Given(events=events))
    assert chains(found.causes) == [expected]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [(before(5), STUCK), (before(1), IN_PROGRESS), (NOW, IN_PROGRESS)],
)
async def test_a_failure_before_the_present_spec_does_not_count(
    cluster: Cluster, changed: str, expected: Chain
) -> None:
    writer = {"manager": "kubectl", "time": changed, "fieldsV1": {"f:spec": {}}}
    body = {
        "metadata": named("web", generation=1, managedFields=[writer]),
        "spec": {**SPEC, "replicas": 1},
        "status": {"observedGeneration": 1},
    }
    found = await explained(cluster, REPLICASETS, body, Given(events=[failed()]))
    assert chains(found.causes) == [expected]


READY = {
    "metadata": named("web", labels=LABELS),
    "spec": {},
    "status": {
        "phase": "Running",
        "podIPs": [{"ip": "10.0.0.1"}],
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": NOW}],
    },
}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([failed()], [FAILS]),
        ([failed(before(2)), succeeded(NOW)], []),
        ([failed(count=1)], []),
    ],
)
async def test_a_service_that_works_is_stuck_if_its_controller_fails(
    cluster: Cluster, events: list[Any], expected: list[Chain]
) -> None:
    """Its endpoint slices are then those of yesterday."""
    server = Given(pods=[READY], endpointslices=[ENDPOINTS], events=events)
    given = {"metadata": named("web"), "spec": {"selector": LABELS}}
    found = await explained(cluster, SERVICES, given, server)
    assert chains(found.causes) == expected


async def test_events_that_may_not_be_read_are_no_part_of_a_good_answer(
    cluster: Cluster,
) -> None:
    server = Given(refused=("events",), pods=[READY], endpointslices=[ENDPOINTS])
    given = {"metadata": named("web"), "spec": {"selector": LABELS}}
    found = await explained(cluster, SERVICES, given, server)
    assert (found.state, found.unread) == (State.HEALTHY, ())


@pytest.mark.parametrize(
    ("count", "minutes", "expected"),
    [
        (9, 5, [IN_PROGRESS, ("PodFailed", State.STUCK, [])]),
        (2, 5, [IN_PROGRESS]),
        (9, 25, [IN_PROGRESS]),
    ],
)
async def test_pods_that_their_node_refuses_again_and_again_are_a_cause(
    cluster: Cluster, count: int, minutes: int, expected: list[Chain]
) -> None:
    """A kubelet lets a pod fail that has no room on the node that the template names.

    The controller makes the next one at once.
    """
    owner = {"uid": "uid-of-web", "controller": True}
    pods = [
        {
            "metadata": {
                **named(f"web-{each}", labels=LABELS, ownerReferences=[owner]),
                "creationTimestamp": before(minutes),
            },
            "spec": {"nodeName": "node-0"},
            "status": {"phase": "Failed", "reason": "OutOfcpu"},
        }
        for each in range(count)
    ]
    body = {
        "metadata": named("web", generation=1),
        "spec": {**SPEC, "replicas": 1},
        "status": {"observedGeneration": 1},
    }
    found = await explained(cluster, REPLICASETS, body, Given(pods=pods))
    assert sorted(chains(found.causes)) == sorted(expected)


async def test_an_event_without_a_time_or_an_object_shows_no_failure(
    cluster: Cluster,
) -> None:
    """Anybody may write events."""
    fails = {"metadata": {"name": "x"}, "type": "Warning", "count": 9}
    events = [
        {**fails, "reason": "FailedUpdate", "message": None, "involvedObject": None},
        {**fails, "involvedObject": {"uid": "uid-of-small"}},
    ]
    body = {"metadata": named("small"), "spec": {}, "status": None}
    found = await explained(cluster, RESOURCE_QUOTAS, body, Given(events=events))
    assert chains(found.causes) == []
