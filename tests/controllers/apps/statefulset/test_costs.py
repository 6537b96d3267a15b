"""The cost of a sync of a stateful set grows with its pods, no faster."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.selectors import compile_selector
from controller_manager.controllers.apps.statefulset.ordering import (
    plan_sync,
    seconds_until_change,
)
from controller_manager.controllers.apps.statefulset.replicas import (
    FoundPods,
    Replicas,
    Revisions,
    Settings,
)
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    pod,
    replicas_of,
    rolling,
    stateful_set,
)
from tests.steps import Steps

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
UPDATING = Revisions("web-old", "web-new")
PARALLEL: dict[str, Any] = {"podManagementPolicy": "Parallel"}
CLAIMS: dict[str, Any] = {"volumeClaimTemplates": [claim_template()]}
PULL = {"waiting": "ImagePullBackOff"}


def running(count: int, **spec: Any) -> Replicas:
    """Return a set whose pods all run."""
    return replicas_of(stateful_set(count, **spec), *map(pod, range(count)))


def with_claims(count: int) -> Replicas:
    seen = running(count, **PARALLEL, **CLAIMS)
    names = [f"data-web-{number}" for number in range(count)]
    claims = {
        name: PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace="default"))
        for name in names
    }
    return replace(seen, claims=claims)


def without_pods(count: int) -> Replicas:
    return replicas_of(stateful_set(count, **PARALLEL, **CLAIMS))


def scaled_away(count: int, **spec: Any) -> Replicas:
    """Return a set with pods that are too many; the highest is not ready."""
    pods = [*map(pod, range(count - 1)), pod(count - 1, ready=False)]
    return replicas_of(stateful_set(0, **spec), *pods)


def updated(count: int, **fields: Any) -> Replicas:
    """Return a set whose pods are to be replaced, from the highest on."""
    old = [pod(each, "web-old", **fields) for each in range(count)]
    settings = Settings(max_unavailable=True)
    wanted = stateful_set(count, updateStrategy=rolling(maxUnavailable="50%"))
    seen = replicas_of(wanted, *old, revisions=UPDATING, settings=settings)
    return replace(seen, failing_since={each.metadata.uid: NOW for each in old})


def stuck(count: int) -> Replicas:
    """Return a set whose old pods do not start."""
    seen = updated(count, ready=False, **PULL)
    long_ago = NOW - timedelta(hours=1)
    return replace(seen, failing_since=dict.fromkeys(seen.failing_since, long_ago))


def starting(count: int) -> Replicas:
    """Return a set whose pods become available later."""
    return running(count, minReadySeconds=9999, **PARALLEL)


def deleted(count: int) -> Replicas:
    seen = running(count)
    metadata = replace(
        seen.stateful_set.metadata, deletion_timestamp="2026-01-01T00:00:00Z"
    )
    return replace(seen, stateful_set=replace(seen.stateful_set, metadata=metadata))


SETS = {
    "runs": running,
    "claims": with_claims,
    "new": without_pods,
    "fewer": scaled_away,
    "fewer-parallel": lambda count: scaled_away(count, **PARALLEL),
    "update": updated,
    "stuck": stuck,
    "starting": starting,
    "deleted": deleted,
}


def look_at(seen: Replicas) -> None:
    """Do all that a sync does without a request."""
    plan_sync(seen, NOW)
    seen.status(NOW)
    seconds_until_change(seen, NOW)


SMALL, LARGE = 1200, 4800


@pytest.mark.slow
@pytest.mark.parametrize("made", SETS.values(), ids=SETS)
def test_a_pod_costs_the_same_in_a_large_set(made: Callable[[int], Replicas]) -> None:
    """Four times the pods take four times the steps."""
    look_at(made(20))  # values that are computed only once do not count
    small, large = made(SMALL), made(LARGE)
    with Steps() as few:
        look_at(small)
    with Steps() as many:
        look_at(large)
    assert many.number <= 4.1 * few.number


@pytest.mark.parametrize(
    ("pod_uid", "controller", "labels", "terminating", "lacks"),
    [
        ("found", "web", {"app": "web"}, False, False),
        ("later", "web", {"app": "web"}, False, True),
        ("later", "web", {}, True, True),
        ("later", "other", {"app": "web"}, False, False),
        ("later", "", {"app": "web"}, False, True),
        ("later", "", {"app": "web"}, True, False),
        ("later", "", {"app": "other"}, False, False),
    ],
)
def test_a_pod_that_appears_after_the_list_of_pods_is_told_from_a_foreign_one(
    pod_uid: str,
    controller: str,
    labels: dict[str, str],
    *,
    terminating: bool,
    lacks: bool,
) -> None:
    """The set's, or one that it would adopt."""
    subject = stateful_set(1)
    owner = {"kind": "StatefulSet", "name": "web", "uid": controller}
    metadata = {
        "name": "web-0",
        "namespace": "default",
        "uid": pod_uid,
        "labels": labels,
        "ownerReferences": [{**owner, "controller": True}] if controller else [],
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating else {}),
    }
    selector = compile_selector(subject.spec.selector)
    found = FoundPods(subject, selector, (), (), {"found"})
    assert found.lacks(msgspec.convert({"metadata": metadata}, Pod)) is lacks
