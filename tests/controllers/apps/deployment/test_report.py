"""The reasons why a rollout waits."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller_manager.api.apps.v1 import ReplicaSet, ReplicaSetStatus
from controller_manager.runtime.outcome import Reason
from tests.controllers.apps.deployment.cases import (
    EARLIER,
    complete,
    of_deployment,
    of_replica_set,
    progressing,
    sized,
    web,
)
from tests.controllers.apps.deployment.model import Cluster, play

OLD = sized("o", 0, image="app:v0", revision=1)


def new(replicas: int, available: int, current: int) -> ReplicaSet:
    return sized("newest", replicas, available, revision=2, current=current)


@pytest.mark.parametrize(
    ("replica_sets", "reasons"),
    [
        ((OLD, new(4, 4, 4)), ()),
        (
            (OLD, new(4, 1, 3)),
            (
                "newest: 1 new pod to be created",
                "newest: 2 new pods to be available",
            ),
        ),
        ((OLD, new(4, 2, 4)), ("newest: 2 new pods to be available",)),
        ((OLD, new(4, 4, 6)), ("newest: 2 surplus pods to be gone",)),
        (
            (sized("o", 0, image="app:v0", revision=1, current=1), new(4, 4, 4)),
            ("o: 1 old pod to be gone",),
        ),
        (
            (sized("o", 0, 1, image="app:v0", revision=1), new(4, 4, 4)),
            ("web: replica sets to report the pods that they have",),
        ),
    ],
)
def test_each_reason_names_its_object(
    replica_sets: tuple[ReplicaSet, ...], reasons: tuple[str, ...]
) -> None:
    """There are no reasons once all pods are new and available."""
    decision = play(Cluster(web(status=complete()), replica_sets)).decision
    said = tuple(f"{each.object.name}: {each.waiting_for}" for each in decision.reasons)
    assert said == reasons


def test_a_wait_counts_from_the_last_progress() -> None:
    """As the progress deadline counts."""
    status = progressing("ReplicaSetUpdated")
    updated = msgspec.structs.replace(status, replicas=4, updated_replicas=4)
    subject = web(status=updated, progressDeadlineSeconds=60)
    decision = play(Cluster(subject, (OLD, new(4, 0, 4)))).decision
    since = datetime(2026, 1, 1, 11, 59, 30, tzinfo=UTC)
    assert decision.reasons == (
        of_replica_set("newest", "4 new pods to be available", since),
    )
    assert decision.requeue_after == 31.0


def test_a_refused_creation_of_pods_is_the_first_reason() -> None:
    """With reason and message of the replica set's condition."""
    condition: dict[str, Any] = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota",
        "lastTransitionTime": EARLIER,
    }
    failing = new(4, 0, 0)
    status = msgspec.convert(
        {**msgspec.to_builtins(failing.status), "conditions": [condition]},
        ReplicaSetStatus,
    )
    failing = msgspec.structs.replace(failing, status=status)
    expected: tuple[Reason, ...] = (
        of_deployment(
            "the end of FailedCreate: exceeded quota",
            datetime(2026, 1, 1, 11, 59, 30, tzinfo=UTC),
        ),
        of_replica_set("newest", "4 new pods to be created"),
    )
    assert play(Cluster(web(), (OLD, failing))).decision.reasons == expected
