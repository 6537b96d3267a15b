"""The sync of a large stateful set is spread over many turns of the event loop."""

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
from controller_manager.clock import LoopClock
from controller_manager.controllers.apps.statefulset.decide import decide
from controller_manager.controllers.apps.statefulset.pods import FoundPods, find_pods
from controller_manager.controllers.apps.statefulset.revisions import (
    Revisions,
    beyond_limit,
)
from controller_manager.controllers.apps.statefulset.rolling_update import unavailable
from controller_manager.controllers.apps.statefulset.tracker import StartFailureTracker
from controller_manager.controllers.apps.statefulset.view import Settings, View
from controller_manager.runtime.spread import Spread, finish
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    pod,
    revision,
    rolling,
    stateful_set,
    view,
)
from tests.steps import parts_of

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


def assert_spread(work: Callable[[int], Spread[object]]) -> None:
    """Check the parts of the work for a small set, and for one four times as large."""
    finish(work(20))  # values that are computed only once do not count
    _, small = parts_of(work(SMALL))
    _, large = parts_of(work(LARGE))
    assert max(large) <= 1.3 * max(small)  # to merge five lists instead of two
    assert sum(large) <= 4.5 * sum(small)


@pytest.mark.slow
@pytest.mark.parametrize("made", VIEWS.values(), ids=VIEWS)
def test_a_large_set_is_decided_in_parts(made: Callable[[int], View]) -> None:
    """No part is larger than those of a small one, and no pod takes more steps."""
    assert_spread(lambda count: decide(made(count), NOW))


def found(count: int) -> Spread[object]:
    subject = stateful_set(count)
    selector = compile_selector(subject.spec.selector)
    return find_pods(subject, selector, list(map(pod, range(count))), ())


def observed(count: int) -> Spread[object]:
    return StartFailureTracker(LoopClock(NOW)).observe("default/web", stuck(count).pods)


def counted(count: int) -> Spread[object]:
    seen = updated(count)
    return unavailable(seen, finish(seen.slots()), NOW)


def old_revisions(count: int) -> Spread[object]:
    seen = updated(count)
    limited = stateful_set(count, revisionHistoryLimit=0)
    revisions = replace(UPDATING, all=(revision("web-old", 1), revision("a", 0)))
    return beyond_limit(limited, seen.pods, revisions)


@pytest.mark.looptime
@pytest.mark.parametrize("work", [found, observed, counted, old_revisions])
async def test_the_work_before_and_after_the_decision_is_done_in_parts(
    work: Callable[[int], Spread[object]],
) -> None:
    """As the decision itself."""
    assert_spread(work)


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
