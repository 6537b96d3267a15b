"""The numbers of a status."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import StatefulSetStatus
from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.apps.statefulset.replicas import is_same
from tests.controllers.apps.statefulset.builders import (
    NEW,
    UPDATING,
    pod,
    replicas_of,
    stateful_set,
)

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
RECENT = "2026-01-01T00:00:58Z"


def old(ordinal: int, **fields: Any) -> Pod:
    return pod(ordinal, "web-old", **fields)


def numbers(status: StatefulSetStatus) -> tuple[int, ...]:
    """Return all, ready, available, current and updated replicas."""
    return (
        status.replicas,
        status.ready_replicas,
        status.available_replicas,
        status.current_replicas,
        status.updated_replicas,
    )


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], (0, 0, 0, 0, 0)),
        ([old(0), pod(1)], (2, 2, 2, 1, 1)),
        ([old(0, ready=False), pod(1)], (2, 1, 1, 1, 1)),
        ([old(0), pod(1, since=RECENT)], (2, 2, 1, 1, 1)),
        # Terminating pods are replicas, and may be ready, but are of no revision.
        ([old(0, terminating=True), pod(1)], (2, 2, 2, 0, 1)),
        ([pod(0, ""), pod(1)], (2, 2, 2, 0, 1)),
        ([old(0, phase="Failed"), pod(1)], (2, 1, 1, 1, 1)),
        ([old(0, phase=""), pod(1)], (1, 1, 1, 0, 1)),
    ],
)
def test_pods_are_counted_by_state_and_revision(
    pods: list[Pod], expected: tuple[int, ...]
) -> None:
    """As in upstream's computeReplicaStatus."""
    seen = replicas_of(stateful_set(3, minReadySeconds=9), *pods, revisions=UPDATING)
    assert numbers(seen.status(NOW)) == expected


def test_a_pod_that_was_just_replaced_is_no_current_one() -> None:
    """Only pods of the current revision are subtracted, so nothing is negative."""
    seen = replicas_of(stateful_set(2), old(0), old(1), revisions=UPDATING)
    replaced = seen.status(NOW, (old(1),))
    assert numbers(replaced) == (2, 2, 2, 1, 0)
    adopted = replicas_of(stateful_set(1), pod(0, ""), revisions=NEW)
    replaced = adopted.status(NOW, (pod(0, ""),))
    assert numbers(replaced) == (1, 1, 1, 0, 0)


@pytest.mark.parametrize(
    ("replicas", "strategy", "pods", "current"),
    [
        (2, "RollingUpdate", [pod(0), pod(1)], "web-new"),
        (2, "RollingUpdate", [pod(0), pod(1, ready=False)], "web-old"),
        (2, "RollingUpdate", [pod(0), old(1)], "web-old"),
        (2, "RollingUpdate", [pod(0), pod(1), pod(2)], "web-old"),
        (0, "RollingUpdate", [], "web-new"),
        (2, "OnDelete", [pod(0), pod(1)], "web-old"),
    ],
)
def test_the_update_revision_becomes_current_once_all_pods_have_it(
    replicas: int, strategy: str, pods: list[Pod], current: str
) -> None:
    """With any partition; never with OnDelete."""
    subject = stateful_set(replicas, updateStrategy={"type": strategy})
    status = replicas_of(subject, *pods, revisions=UPDATING).status(NOW)
    assert status.current_revision == current
    assert status.update_revision == "web-new"


def test_an_unchanged_status_is_not_written() -> None:
    """Conditions of others are kept, and an older generation is never reported."""
    written = StatefulSetStatus(observed_generation=2, replicas=1, collision_count=0)
    assert is_same(written, written)
    assert is_same(written, replace(written, observed_generation=1))
    assert is_same(replace(written, collision_count=None), written)
    assert not is_same(written, replace(written, observed_generation=3))
    assert not is_same(written, replace(written, replicas=2))
