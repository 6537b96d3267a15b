"""States of containers in which an old event would be a wrong answer."""

from typing import Any

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.explain.cause import State
from tests.clusters import Cluster
from tests.explain.given import (
    LONG_AGO,
    NOW,
    Given,
    before,
    chains,
    event,
    explained,
    named,
)

pytestmark = pytest.mark.looptime

NODE = {
    "metadata": {"name": "node-0"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
FIELD = "spec.containers{app}"


def pod(**status: Any) -> dict[str, Any]:
    """Return a pod that is an hour old, with the status of its container."""
    return {
        "metadata": named("web"),
        "spec": {"nodeName": "node-0", "containers": [{"name": "app", "image": "a"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "app", "ready": False, **status}],
        },
    }


async def states(
    cluster: Cluster, body: dict[str, Any], *events: dict[str, Any]
) -> list[Any]:
    found = await explained(cluster, PODS, body, Given(nodes=[NODE], events=[*events]))
    return chains(found.causes)


def unhealthy(kind: str, at: str) -> dict[str, Any]:
    return event("Unhealthy", f"{kind} probe failed: no", at, fieldPath=FIELD)


@pytest.mark.parametrize(
    ("at", "code", "state"),
    [
        (before(5), "ProbeFailing", State.STUCK),
        (before(40), "NotReady", State.STUCK),
    ],
)
async def test_a_probe_that_failed_in_the_run_before_is_not_why_this_one_is_not_ready(
    cluster: Cluster, at: str, code: str, state: State
) -> None:
    running = {"running": {"startedAt": before(10)}}
    assert await states(cluster, pod(state=running), unhealthy("Readiness", at)) == [
        (code, state, [])
    ]


@pytest.mark.parametrize(
    ("kind", "status", "probes", "state"),
    [
        ("Readiness", {"started": True}, {}, State.PROGRESSING),
        ("Startup", {"started": False}, {}, State.STUCK),
        (
            "Startup",
            {"started": False},
            {"startupProbe": {"periodSeconds": 10, "failureThreshold": 30}},
            State.PROGRESSING,
        ),
        ("Liveness", {"started": True}, {}, State.STUCK),
        ("Readiness", {"started": True, "restartCount": 1}, {}, State.STUCK),
    ],
)
async def test_a_program_that_starts_may_fail_its_probes_for_a_time(
    cluster: Cluster, kind: str, status: Any, probes: Any, state: State
) -> None:
    began = {"running": {"startedAt": "2025-12-31T23:59:20Z"}}
    body = pod(state=began, **status)
    body["spec"]["containers"][0].update(probes)
    found = await states(cluster, body, unhealthy(kind, NOW))
    assert found == [("ProbeFailing", state, [])]


@pytest.mark.parametrize(
    ("at", "below"),
    [(before(4), [("ProbeFailing", State.STUCK, [])]), (before(40), [])],
)
async def test_a_probe_that_failed_in_an_older_run_did_not_end_the_last_one(
    cluster: Cluster, at: str, below: list[Any]
) -> None:
    end = {"exitCode": 1, "startedAt": before(5), "finishedAt": before(3)}
    status = {
        "restartCount": 5,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": end},
    }
    assert await states(cluster, pod(**status), unhealthy("Liveness", at)) == [
        ("CrashLoop", State.STUCK, below)
    ]


@pytest.mark.parametrize(
    ("began", "code"), [(before(2), "CrashLoop"), (LONG_AGO, "NotReady")]
)
async def test_a_container_that_ran_for_long_before_does_not_crash_in_a_loop(
    cluster: Cluster, began: str, code: str
) -> None:
    """Restarts are counted as long as the pod lives, for example one a month."""
    end = {"exitCode": 255, "startedAt": began, "finishedAt": before(1)}
    status = {
        "restartCount": 5,
        "state": {"running": {"startedAt": NOW}},
        "lastState": {"terminated": end},
    }
    assert [each[0] for each in await states(cluster, pod(**status))] == [code]


@pytest.mark.parametrize(
    ("events", "code", "state", "what"),
    [
        (
            [event("FailedMount", "no secret.", before(9))],
            "VolumeMount",
            State.STUCK,
            "the volumes of the pod cannot be made: no secret",
        ),
        (
            [
                event("FailedMount", "no secret.", before(9)),
                event("Pulling", "Pulling image", before(8)),
            ],
            "Starting",
            State.PROGRESSING,
            "the kubelet pulls the image of the container app",
        ),
        (
            [
                event("FailedAttachVolume", "on another node.", before(9)),
                event("SuccessfulAttachVolume", "yes", before(8)),
            ],
            "Starting",
            State.STUCK,
            "the kubelet starts the container app",
        ),
        (
            [
                event("FailedMount", "no secret.", before(7)),
                event("SuccessfulAttachVolume", "yes", before(6)),
            ],
            "VolumeMount",
            State.STUCK,
            "the volumes of the pod cannot be made: no secret",
        ),
        (
            [],
            "Starting",
            State.STUCK,
            "the kubelet starts the container app",
        ),
    ],
)
async def test_a_failure_that_a_later_event_shows_to_be_over_is_no_cause(
    cluster: Cluster, events: list[dict[str, Any]], code: str, state: State, what: str
) -> None:
    """A kubelet that says nothing for ten minutes is stuck."""
    body = pod(state={"waiting": {"reason": "ContainerCreating"}})
    server = Given(nodes=[NODE], events=events)
    found = await explained(cluster, PODS, body, server)
    assert [(each.code, each.state, each.what) for each in found.causes] == [
        (code, state, what)
    ]
