"""Replacements of failed pods wait, longer after each failure."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller_manager.api.batch.v1 import PodFailurePolicy
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.batch.job.failures import (
    BackoffRecord,
    MatchedAction,
    all_failures_of,
    annotations_of_replacement,
    counts,
    delay_after,
    ends_index,
    failures_of,
    finished_at,
    match,
    may_start,
    pods_to_replace,
    remaining_for_index,
)
from tests.controllers.batch.job.builders import (
    at,
    container_runs,
    ended,
    job_pod,
    text,
)


def pod(seconds: int, **fields: Any) -> Pod:
    return job_pod(containers=[ended(at=text(seconds))], **fields)


@pytest.mark.parametrize(
    ("failures", "delay"),
    [(-1, 0), (0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (10**9, 600)],
)
def test_the_delay_doubles_up_to_ten_minutes(failures: int, delay: float) -> None:
    """As upstream's, with its defaults."""
    assert delay_after(failures) == delay


@pytest.mark.parametrize(
    ("before", "succeeded", "failed", "after"),
    [
        (BackoffRecord(), [], [], BackoffRecord()),
        (BackoffRecord(2, at(1)), [], [], BackoffRecord(2, at(1))),
        (BackoffRecord(), [], [5], BackoffRecord(1, at(5))),
        (BackoffRecord(2, at(1)), [], [9, 7, 8], BackoffRecord(5, at(9))),
        # Pods are counted when they are seen, which may be late.
        (BackoffRecord(2, at(20)), [], [9], BackoffRecord(3, at(9))),
        (BackoffRecord(2, at(1)), [5], [], BackoffRecord()),
        (BackoffRecord(2, at(1)), [3, 5], [4, 6, 9], BackoffRecord(2, at(9))),
        (BackoffRecord(2, at(1)), [5], [5], BackoffRecord()),
    ],
)
def test_failures_since_the_last_success_count(
    before: BackoffRecord, succeeded: list[int], failed: list[int], after: BackoffRecord
) -> None:
    """The end of the containers decides, not the order of the lists."""
    assert before.after([pod(s) for s in succeeded], [pod(f) for f in failed]) == after


@pytest.mark.parametrize(
    ("backoff", "now", "remaining"),
    [
        (BackoffRecord(), 0, 0),
        (BackoffRecord(1, at(0)), 0, 10),
        (BackoffRecord(1, at(0)), 4, 6),
        (BackoffRecord(1, at(0)), 10, 0),
        (BackoffRecord(1, at(0)), 99, 0),
        (BackoffRecord(3, at(5)), 15, 30),
        (BackoffRecord(0, at(5)), 5, 0),
    ],
)
def test_the_remaining_time_counts_from_the_last_failure(
    backoff: BackoffRecord, now: float, remaining: float
) -> None:
    assert backoff.remaining(at(now)) == remaining


def test_an_index_waits_by_its_own_failures() -> None:
    """Ignored failures count, too: pods that are evicted at once cause no hot loop."""
    assert remaining_for_index(None, at(0)) == 0
    assert remaining_for_index(pod(0, failures=0), at(3)) == 7
    assert remaining_for_index(pod(0, failures=1, ignored=1), at(3)) == 37


@pytest.mark.parametrize(
    ("now", "indexes", "expected"),
    [
        (3, [0, 1, 2], ([2], 0)),
        (3, [0, 1], ([], 7)),
        (12, [0, 1], ([0], 0)),
        (50, [0, 1], ([0, 1], 0)),
        (3, [], ([], 0)),
    ],
)
def test_indexes_that_need_not_wait_start_before_the_others(
    now: float, indexes: list[int], expected: tuple[list[int], float]
) -> None:
    """If all must wait, the shortest time is returned."""
    replaced = {0: pod(0, failures=0), 1: pod(0, failures=2)}
    assert may_start(indexes, replaced, at(now)) == expected


NOT_READY = [{"type": "Ready", "status": "False", "lastTransitionTime": text(30)}]
READY = [{**NOT_READY[0], "status": "True"}]
SIDECAR = {"name": "side", "restartPolicy": "Always"}
ENDED = ended(at=text(4))
DELETED = {"deletionTimestamp": text(40)}
ENDLESS = {**DELETED, "deletionGracePeriodSeconds": 2**63 - 1}


@pytest.mark.parametrize(
    ("seconds", "fields"),
    [
        (9, {"containers": [ENDED, ended(at=text(9))]}),
        # Sidecars end after the containers.
        (
            12,
            {
                "containers": [ENDED],
                "init_specs": [SIDECAR, {"name": "setup"}],
                "init_containers": [ended("side", at=text(12)), ended("setup")],
            },
        ),
        # One container, or one sidecar, has not ended: the condition counts.
        (30, {"containers": [ENDED, container_runs()], "conditions": NOT_READY}),
        (30, {"containers": [ended(at=None)], "conditions": NOT_READY}),
        (
            30,
            {
                "containers": [ENDED],
                "init_specs": [SIDECAR],
                "init_containers": [container_runs("side")],
                "conditions": NOT_READY,
            },
        ),
        (30, {"conditions": NOT_READY, "metadata": DELETED}),
        (
            10,
            {
                "conditions": READY,
                "metadata": {**DELETED, "deletionGracePeriodSeconds": 30},
            },
        ),
        (40, {"metadata": DELETED}),
        (2, {"conditions": [{"type": "Ready", "status": "False"}], "created": text(2)}),
        # The grace period may be any number of 64 bits: that is long ago.
        (None, {"metadata": ENDLESS}),
    ],
)
def test_a_pods_end_has_the_best_source(seconds: int | None, fields: JSON) -> None:
    """Containers, the Ready condition, the deletion, the creation."""
    expected = LONG_AGO if seconds is None else at(seconds)
    assert finished_at(job_pod(**fields)) == expected


LONG_AGO = datetime.min.replace(tzinfo=UTC)
COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"

POLICY = msgspec.convert(
    {
        "rules": [
            {"action": action, "onExitCodes": {"operator": "In", "values": [code]}}
            for code, action in enumerate(("FailIndex", "Ignore", "Count"), start=9)
        ]
    },
    PodFailurePolicy,
)
FAIL_INDEX = [ended(code=9)]
IGNORE = [ended(code=10)]


@pytest.mark.parametrize(
    ("pod", "failures", "all_failures"),
    [
        (job_pod(), 0, 0),
        (job_pod(failures=3), 3, 3),
        (job_pod(failures=3, ignored=2), 3, 5),
        (job_pod(failures="x", ignored="-1"), 0, 0),
        (job_pod(failures=2**31 - 1, ignored=2**31), 2**31 - 1, 2**31 - 1),
        (Pod(), 0, 0),
    ],
)
def test_spoilt_counts_are_zero(pod: Pod, failures: int, all_failures: int) -> None:
    """A valid count has 32 bits and is not negative."""
    assert failures_of(pod) == failures
    assert all_failures_of(pod) == all_failures


@pytest.mark.parametrize(
    ("policy", "replaced", "annotations"),
    [
        (None, None, {COUNT: "0"}),
        (POLICY, None, {COUNT: "0"}),
        (None, job_pod(), {COUNT: "1"}),
        (None, job_pod(failures=2, ignored=1), {COUNT: "3", IGNORED: "1"}),
        (POLICY, job_pod(failures=2), {COUNT: "3"}),
        (POLICY, job_pod(failures=2, containers=IGNORE), {COUNT: "2", IGNORED: "1"}),
        (
            POLICY,
            job_pod(failures=2, ignored=4, containers=IGNORE),
            {COUNT: "2", IGNORED: "5"},
        ),
    ],
)
def test_a_replacement_takes_over_the_counts(
    policy: PodFailurePolicy | None, replaced: Pod | None, annotations: dict[str, str]
) -> None:
    """The failure of the replaced pod is in one of the two counts."""
    assert annotations_of_replacement(policy, replaced) == annotations


@pytest.mark.parametrize(
    ("policy", "pod", "ends"),
    [
        (None, job_pod(failures=0), False),
        (None, job_pod(failures=1), False),
        (None, job_pod(failures=2), True),
        (POLICY, job_pod(failures=2), True),
        (POLICY, job_pod(failures=0, containers=FAIL_INDEX), True),
        (POLICY, job_pod(failures=9, containers=IGNORE), False),
        (POLICY, job_pod(failures=1, ignored=9), False),
    ],
)
def test_an_index_fails_by_its_limit_or_by_the_policy(
    policy: PodFailurePolicy | None, pod: Pod, *, ends: bool
) -> None:
    """The limit here is 2: the third failure that counts is the last."""
    assert ends_index(policy, pod, 2) is ends


def test_the_last_failed_pod_of_each_index_waits_for_its_replacement() -> None:
    """It is the pod with most failures, then the pod that ended last."""
    early, late = ([ended(at=f"2026-01-01T00:00:0{second}Z")] for second in (1, 2))
    pods = [
        job_pod("a", index=0, failures=0, containers=late),
        job_pod("b", index=0, failures=1, containers=early),
        job_pod("c", index=1, failures=1, containers=late),
        job_pod("d", index=1, failures=1, containers=early),
        job_pod("e", index=2, failures=4),
        job_pod("f", index=None, failures=4),
    ]
    for order in (pods, pods[::-1]):
        assert pods_to_replace(order, ({2}, ())) == {0: pods[1], 1: pods[2]}


def policy(words: str) -> PodFailurePolicy:
    """Return rules such as "Ignore In 4 6 side; Count Disrupted"."""
    rules = []
    for action, kind, *rest in (each.split() for each in words.split(";") if each):
        codes = [int(each) for each in rest if each.isdigit()]
        exits: JSON = {"operator": kind, "values": codes}
        if rest and not rest[-1].isdigit():
            exits["containerName"] = rest[-1]
        named = [PATTERNS[each] for each in (kind, *rest) if each in PATTERNS]
        on = {"onPodConditions": named} if named else {"onExitCodes": exits}
        rules.append({"action": action, **on})
    return msgspec.convert({"rules": rules}, PodFailurePolicy)


PATTERNS: dict[str, JSON] = {
    "Disrupted": {"type": "DisruptionTarget", "status": "True"},
    "Bad": {"type": "Bad", "status": "Unknown"},
}
ONE = job_pod("p", containers=[ended("main", 5)])
TWO = job_pod("p", containers=[ended("main", 0), ended("side", 7)])
RUNS = job_pod("p", containers=[container_runs("main")])
SETUP = {"init_containers": [ended("setup", 3)]}


def exited(container: str, code: int, rule: int = 0) -> MatchedAction:
    """Return the match of a rule on exit codes that fails the job."""
    found = f"Container {container} for pod default/p failed with exit code {code}"
    return MatchedAction("FailJob", f"{found} matching FailJob rule at index {rule}")


@pytest.mark.parametrize(
    ("rules", "pod", "matched"),
    [
        ("", ONE, None),
        ("FailJob In 5", ONE, exited("main", 5)),
        ("FailJob In 4 6", ONE, None),
        ("FailIndex In 5", ONE, MatchedAction("FailIndex")),
        ("Ignore In 5", ONE, MatchedAction("Ignore")),
        ("Count In 5", ONE, MatchedAction("Count")),
        ("Ignore In 4; Count In 5", ONE, MatchedAction("Count")),
        ("Ignore In 5; FailJob In 5", ONE, MatchedAction("Ignore")),
        ("Ignore In 4; FailJob In 5", ONE, exited("main", 5, 1)),
        # A rule of a later version is no rule.
        ("Explode In 5; Count In 5", ONE, MatchedAction("Count")),
        ("FailJob NotIn 4", ONE, exited("main", 5)),
        ("FailJob NotIn 5", ONE, None),
        ("FailJob Near 5", ONE, None),
        # Exit code 0 never matches.
        ("FailJob NotIn 7", TWO, None),
        ("FailJob In 0 7", TWO, exited("side", 7)),
        ("FailJob In 7 side", TWO, exited("side", 7)),
        ("FailJob In 7 main", TWO, None),
        # A container that has not ended has no exit code. Containers come before init
        # containers.
        ("FailJob NotIn 1", RUNS, None),
        ("FailJob In 3", job_pod("p", **SETUP), exited("setup", 3)),
        (
            "FailJob In 3 4",
            job_pod("p", **SETUP, containers=[ended("main", 4)]),
            exited("main", 4),
        ),
    ],
)
def test_a_rule_on_exit_codes(
    rules: str, pod: Pod, matched: MatchedAction | None
) -> None:
    assert match(policy(rules), pod) == matched


DISRUPTED = [PATTERNS["Disrupted"]]
HAS = "Pod default/p has condition DisruptionTarget matching FailJob rule at index 0"


@pytest.mark.parametrize(
    ("rules", "conditions", "matched"),
    [
        ("Ignore Disrupted", DISRUPTED, MatchedAction("Ignore")),
        ("Ignore Disrupted", [], None),
        ("Ignore Disrupted", [{**DISRUPTED[0], "status": "False"}], None),
        (
            "FailJob Bad Disrupted",
            [{"type": "Ready", "status": "False"}, *DISRUPTED],
            MatchedAction("FailJob", HAS),
        ),
    ],
)
def test_a_rule_on_conditions(
    rules: str, conditions: list[JSON], matched: MatchedAction | None
) -> None:
    """Type and status must be equal."""
    assert match(policy(rules), job_pod(conditions=conditions)) == matched


@pytest.mark.parametrize(
    "rule",
    [
        {"onPodConditions": []},
        {
            "onExitCodes": {"operator": "In", "values": [5]},
            "onPodConditions": DISRUPTED,
        },
    ],
)
def test_exit_codes_count_alone_if_a_rule_has_both(rule: JSON) -> None:
    """And no condition is none that matches."""
    rules = {"rules": [{"action": "Count", **rule}]}
    found = msgspec.convert(rules, PodFailurePolicy)
    assert match(found, job_pod(conditions=DISRUPTED)) is None


@pytest.mark.parametrize(
    ("action", "counted"),
    [("Ignore", False), ("Count", True), ("FailJob", True), ("FailIndex", True)],
)
def test_only_ignored_failures_do_not_count(action: str, *, counted: bool) -> None:
    assert counts(policy(f"{action} In 5"), ONE) is counted
    assert counts(policy(f"{action} In 6"), ONE)
    assert counts(None, ONE)
    assert match(None, ONE) is None
