"""States of quotas and cron jobs in which the nearest answer would be a wrong one."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.batch.v1 import CRON_JOBS
from controller_manager.api.core.resources import RESOURCE_QUOTAS
from controller_manager.explain.cause import State
from tests.clusters import Cluster
from tests.explain.given import (
    LONG_AGO,
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
TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "app", "image": "a"}]},
}


def quota(used: str, hard: str = "1", name: str = "pods") -> Any:
    return {
        "metadata": named("small"),
        "spec": {"hard": {name: hard}},
        "status": {"hard": {name: hard}, "used": {name: used}},
    }


def refusal(kind: str, name: str, requested: str = "pods=1") -> Any:
    """Return the event about an object that the quota "small" has refused."""
    message = (
        f'pods "web-x" is forbidden: exceeded quota: small, requested: {requested}, '
        f"used: {requested}, limited: {requested}"
    )
    about = {"kind": kind, "name": name, "uid": f"uid-of-{name}", "namespace": "shop"}
    return {
        **event("FailedCreate", f"Error creating: {message}", before(5), **about),
        "type": "Warning",
    }


def stateful_set(replicas: int) -> Any:
    return {
        "metadata": named("db", generation=1),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": TEMPLATE,
        },
        "status": {
            "replicas": 0,
            "observedGeneration": 1,
            "currentRevision": "db-1",
            "updateRevision": "db-1",
        },
    }


@pytest.mark.parametrize(
    ("body", "sets", "events", "expected"),
    [
        (
            quota("1"),
            [stateful_set(1)],
            [refusal("StatefulSet", "db")],
            [("QuotaFull", State.STUCK, [])],
        ),
        (
            quota("900m", name="requests.cpu"),
            [stateful_set(1)],
            [refusal("StatefulSet", "db", "requests.cpu=500m")],
            [("QuotaFull", State.STUCK, [])],
        ),
        # The owner wants no more pods, or is another one of the same name, or is gone.
        (
            quota("1"),
            [stateful_set(0)],
            [refusal("StatefulSet", "db")],
            [("QuotaFull", State.HEALTHY, [])],
        ),
        (
            quota("1"),
            [stateful_set(1)],
            [refusal("StatefulSet", "other")],
            [("QuotaFull", State.HEALTHY, [])],
        ),
        # The quota was raised meanwhile.
        (quota("1", "9"), [stateful_set(1)], [refusal("StatefulSet", "db")], []),
        # It forbids a resource, and no owner wants it.
        (quota("0", "0"), [], [], []),
        (quota("0"), [], [], []),
    ],
)
async def test_a_quota_says_whether_it_refuses_objects(
    cluster: Cluster, body: Any, sets: list[Any], events: list[Any], expected: Any
) -> None:
    server = Given(resourcequotas=[body], statefulsets=sets, events=events)
    found = await explained(cluster, RESOURCE_QUOTAS, body, server)
    assert chains(found.causes) == expected


async def test_the_resource_and_the_refused_owners_are_named(cluster: Cluster) -> None:
    body = quota("1")
    server = Given(
        resourcequotas=[body],
        statefulsets=[stateful_set(1)],
        events=[refusal("StatefulSet", "db")],
    )
    found = await explained(cluster, RESOURCE_QUOTAS, body, server)
    assert (found.summary, [(each.what, each.since) for each in found.causes]) == (
        "it is full: pods",
        [
            (
                (
                    "the quota has pods: 1, 1 of it in use, so the API server refuses "
                    "objects of StatefulSet db"
                ),
                before(5),
            )
        ],
    )


async def test_a_quota_that_is_not_counted_is_not_healthy(cluster: Cluster) -> None:
    """The API server refuses new objects until it knows the status."""
    body = {"metadata": named("small"), "spec": {"hard": {"pods": "1"}}, "status": {}}
    found = await explained(cluster, RESOURCE_QUOTAS, body, Given())
    assert chains(found.causes) == [("ControllerAbsent", State.STUCK, [])]


async def test_a_replica_set_that_a_quota_refuses_names_the_quota(
    cluster: Cluster,
) -> None:
    full = quota("1", name="count/replicasets.apps")
    condition = {
        "type": "Progressing",
        "status": "False",
        "reason": "ReplicaSetCreateError",
        "message": 'Failed to create new replica set "web-1": replicasets.apps "web-1" '
        "is forbidden: exceeded quota: small, requested: count/replicasets.apps=1, "
        "used: count/replicasets.apps=1, limited: count/replicasets.apps=1",
        "lastTransitionTime": LONG_AGO,
    }
    body = {
        "metadata": named("web", generation=1),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": LABELS},
            "template": TEMPLATE,
        },
        "status": {"observedGeneration": 1, "conditions": [condition]},
    }
    server = Given(resourcequotas=[full], deployments=[body])
    found = await explained(cluster, DEPLOYMENTS, body, server)
    assert chains(found.causes) == [
        ("QuotaExceeded", State.STUCK, [("QuotaFull", State.STUCK, [])])
    ]
    assert found.causes[0].because[0].what == (
        "the quota has count/replicasets.apps: 1, 1 of it in use, and a replica set "
        "needs 1"
    )


def job(name: str, minutes: int, end: str = "", **spec: Any) -> Any:
    conditions = [
        {
            "type": end,
            "status": "True",
            "reason": "BackoffLimitExceeded",
            "message": "x",
            "lastTransitionTime": before(minutes - 1),
        }
    ]
    owner = {"kind": "CronJob", "name": "report", "uid": "uid-of-report"}
    metadata = named(
        name, generation=1, ownerReferences=[{**owner, "controller": True}]
    )
    return {
        "metadata": {**metadata, "creationTimestamp": before(minutes)},
        "spec": {"completions": 1, "parallelism": 1, "template": TEMPLATE, **spec},
        "status": {
            "startTime": before(minutes),
            "conditions": conditions if end else [],
        },
    }


FAILED: Chain = ("BackoffLimitExceeded", State.STUCK, [])
RUNS: Chain = ("JobRuns", State.PROGRESSING, [])


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([], []),
        ([job("a", 9, "Failed"), job("b", 5, "Complete")], []),
        (
            [job("a", 9, "Complete"), job("b", 5, "Failed")],
            [("RunFailed", State.STUCK, [FAILED])],
        ),
        (
            [job("a", 9, "Failed"), job("b", 5)],
            [("RunNotComplete", State.PROGRESSING, [RUNS])],
        ),
        (
            [job("a", 9), job("b", 5, suspend=True)],
            [
                (
                    "RunNotComplete",
                    State.STUCK,
                    [("Suspended", State.STUCK, []), RUNS],
                )
            ],
        ),
    ],
)
async def test_a_cron_job_is_as_stuck_as_its_runs(
    cluster: Cluster, jobs: list[Any], expected: Any
) -> None:
    """A run that failed before a better one is history."""
    body = {
        "metadata": {**named("report"), "creationTimestamp": before(50)},
        "spec": {"schedule": "0 0 1 6 *", "jobTemplate": {"spec": {}}},
        "status": {"lastScheduleTime": before(5)},
    }
    found = await explained(cluster, CRON_JOBS, body, Given(jobs=jobs))
    assert chains(found.causes) == [*expected, ("NextRun", State.HEALTHY, [])]


async def test_a_quota_that_refuses_objects_does_not_have_room(
    cluster: Cluster,
) -> None:
    body = quota("0", "100m", "requests.cpu")
    refused = refusal("StatefulSet", "db", "requests.cpu=200m")
    server = Given(
        resourcequotas=[body], statefulsets=[stateful_set(1)], events=[refused]
    )
    found = await explained(cluster, RESOURCE_QUOTAS, body, server)
    assert (found.state, found.summary) == (State.STUCK, "it has too little room")


async def test_a_claim_that_a_quota_refuses_is_not_called_a_pod(
    cluster: Cluster,
) -> None:
    amount = "requests.storage=2Gi"
    message = (
        "create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: "
        'persistentvolumeclaims "data-db-0" is forbidden: exceeded quota: small, '
        f"requested: {amount}, used: requests.storage=0, limited: requests.storage=1Gi"
    )
    refused = event("FailedCreate", message, before(5), uid="uid-of-db")
    full = quota("0", "1Gi", "requests.storage")
    server = Given(resourcequotas=[full], events=[refused])
    found = await explained(cluster, STATEFUL_SETS, stateful_set(1), server)
    (exceeded,) = found.causes[0].because
    assert [(each.what, each.remedy) for each in (exceeded, *exceeded.because)] == [
        (
            (
                "a pod is missing: the API server refuses new claims, because they "
                "exceed a quota"
            ),
            "",
        ),
        (
            (
                "the quota has requests.storage: 1Gi, 0 of it in use, and a claim "
                "needs 2Gi"
            ),
            "raise the quota, or delete claims that count against it",
        ),
    ]


def ending_pod(name: str, **metadata: Any) -> Any:
    ending = {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30, **metadata}
    spec = {"nodeName": "node-1", "containers": [{"name": "app", "image": "a"}]}
    return {"metadata": named(name, **ending), "spec": spec, "status": {}}


def failures(count: int) -> Any:
    """Return the event of a stateful set whose pod was refused again and again."""
    source = {"source": {"component": "statefulset-controller"}, "count": count}
    again = refusal("StatefulSet", "db")
    times = {"firstTimestamp": before(2), "lastTimestamp": before(1)}
    return {**again, **source, **times}


@pytest.mark.parametrize(
    ("used", "pods", "state"),
    [
        ("1", [ending_pod("old")], State.PROGRESSING),
        # An overdue pod counts no more, so its room is in use by another one.
        (
            "1",
            [ending_pod("old", deletionTimestamp=before(5))],
            State.STUCK,
        ),
        ("2", [ending_pod("old")], State.STUCK),
        ("1", [], State.STUCK),
        # The quota was raised, or pods have ended, a moment ago.
        ("0", [], State.PROGRESSING),
    ],
)
async def test_a_quota_that_pods_are_leaving_does_not_make_their_owner_stuck(
    cluster: Cluster, used: str, pods: list[Any], state: State
) -> None:
    """In a rollout the old pods count until they have ended."""
    server = Given(resourcequotas=[quota(used)], pods=pods, events=[failures(12)])
    found = await explained(cluster, STATEFUL_SETS, stateful_set(1), server)
    assert found.state is state
