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
from controller_manager.controllers.apps.statefulset.decide import decide
from controller_manager.controllers.apps.statefulset.pods import FoundPods
from controller_manager.controllers.apps.statefulset.revisions import (
    Revisions,
)
from controller_manager.controllers.apps.statefulset.view import Settings, View
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    pod,
    rolling,
    stateful_set,
    view,
)
from tests.steps import Steps

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
UPDATING = Revisions("web-old", "web-new")
PARALLEL: dict[str, Any] = {"podManagementPolicy": "Parallel"}
CLAIMS: dict[str, Any] = {"volumeClaimTemplates": [claim_template()]}
PULL = {"waiting": "ImagePullBackOff"}


def running(count: int, **spec: Any) -> View:
    """Return a set whose pods all run."""
    return view(stateful_set(count, **spec), *map(pod, range(count)))


def with_claims(count: int) -> View:
    seen = running(count, **PARALLEL, **CLAIMS)
    names = [f"data-web-{number}" for number in range(count)]
    claims = {
        name: PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace="default"))
        for name in names
    }
    return replace(seen, claims=claims)


def without_pods(count: int) -> View:
    return view(stateful_set(count, **PARALLEL, **CLAIMS))


def scaled_away(count: int, **spec: Any) -> View:
    """Return a set with pods that are too many; the highest is not ready."""
    pods = [*map(pod, range(count - 1)), pod(count - 1, ready=False)]
    return view(stateful_set(0, **spec), *pods)


def updated(count: int, **fields: Any) -> View:
    """Return a set whose pods are to be replaced, from the highest on."""
    old = [pod(each, "web-old", **fields) for each in range(count)]
    settings = Settings(max_unavailable=True)
    wanted = stateful_set(count, updateStrategy=rolling(maxUnavailable="50%"))
    seen = view(wanted, *old, revisions=UPDATING, settings=settings)
    return replace(seen, failing_since={each.metadata.uid: NOW for each in old})


def stuck(count: int) -> View:
    """Return a set whose old pods do not start."""
    seen = updated(count, ready=False, **PULL)
    long_ago = NOW - timedelta(hours=1)
    return replace(seen, failing_since=dict.fromkeys(seen.failing_since, long_ago))


def starting(count: int) -> View:
    """Return a set whose pods become available later."""
    late = running(count, minReadySeconds=9999, **PARALLEL)
    return replace(late, acted=True)


def deleted(count: int) -> View:
    seen = running(count)
    metadata = replace(
        seen.stateful_set.metadata, deletion_timestamp="2026-01-01T00:00:00Z"
    )
    return replace(seen, stateful_set=replace(seen.stateful_set, metadata=metadata))


VIEWS = {
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


SMALL, LARGE = 1200, 4800


@pytest.mark.slow
@pytest.mark.parametrize("made", VIEWS.values(), ids=VIEWS)
def test_a_pod_costs_the_same_in_a_large_set(made: Callable[[int], View]) -> None:
    """Four times the pods take four times the steps."""
    decide(made(20), NOW)  # values that are computed only once do not count
    small, large = made(SMALL), made(LARGE)
    with Steps() as few:
        decide(small, NOW)
    with Steps() as many:
        decide(large, NOW)
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
