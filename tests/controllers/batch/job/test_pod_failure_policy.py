"""The first rule of a failure policy that matches decides what a failure means."""

import msgspec
import pytest

from controller_manager.api.batch.v1 import PodFailurePolicy
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.batch.job.failures import (
    MatchedAction,
    counts,
    match,
)
from tests.controllers.batch.job.pods import ended, job_pod, running

DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


def policy(*rules: JSON) -> PodFailurePolicy:
    """Return the policy of a job."""
    return msgspec.convert({"rules": list(rules)}, PodFailurePolicy)


def on_codes(
    action: str, *codes: int, operator: str = "In", container: str | None = None
) -> JSON:
    """Return a rule on exit codes."""
    requirement: JSON = {"operator": operator, "values": list(codes)}
    if container is not None:
        requirement["containerName"] = container
    return {"action": action, "onExitCodes": requirement}


def on_conditions(action: str, *patterns: JSON) -> JSON:
    """Return a rule on conditions of the pod."""
    return {"action": action, "onPodConditions": list(patterns)}


def exits(pod: str, container: str, code: int, rule: int) -> MatchedAction:
    """Return the match of a rule on exit codes that fails the job."""
    return MatchedAction(
        "FailJob",
        f"Container {container} for pod default/{pod} failed with exit code {code} "
        f"matching FailJob rule at index {rule}",
    )


ONE = job_pod("web-1", containers=[ended("main", 5)])
TWO = job_pod("web-1", containers=[ended("main", 0), ended("side", 7)])


@pytest.mark.parametrize(
    ("rules", "pod", "matched"),
    [
        ([], ONE, None),
        ([on_codes("FailJob", 5)], ONE, exits("web-1", "main", 5, 0)),
        ([on_codes("FailJob", 4, 6)], ONE, None),
        ([on_codes("FailIndex", 5)], ONE, MatchedAction("FailIndex")),
        ([on_codes("Ignore", 5)], ONE, MatchedAction("Ignore")),
        ([on_codes("Count", 5)], ONE, MatchedAction("Count")),
        ([on_codes("Ignore", 4), on_codes("Count", 5)], ONE, MatchedAction("Count")),
        ([on_codes("Ignore", 5), on_codes("FailJob", 5)], ONE, MatchedAction("Ignore")),
        (
            [on_codes("Ignore", 4), on_codes("FailJob", 5)],
            ONE,
            exits("web-1", "main", 5, 1),
        ),
        # A rule of a later version is no rule.
        ([on_codes("Explode", 5), on_codes("Count", 5)], ONE, MatchedAction("Count")),
        ([on_codes("FailJob", 4, operator="NotIn")], ONE, exits("web-1", "main", 5, 0)),
        ([on_codes("FailJob", 5, operator="NotIn")], ONE, None),
        ([on_codes("FailJob", 5, operator="Near")], ONE, None),
        # Exit code 0 never matches.
        ([on_codes("FailJob", 7, operator="NotIn")], TWO, None),
        ([on_codes("FailJob", 0, 7)], TWO, exits("web-1", "side", 7, 0)),
        ([on_codes("FailJob", 7, container="side")], TWO, exits("web-1", "side", 7, 0)),
        ([on_codes("FailJob", 7, container="main")], TWO, None),
        # A container that has not ended has no exit code.
        (
            [on_codes("FailJob", 1, operator="NotIn")],
            job_pod("web-1", containers=[running("main")]),
            None,
        ),
        (
            [on_codes("FailJob", 3)],
            job_pod("web-1", init_containers=[ended("setup", 3)]),
            exits("web-1", "setup", 3, 0),
        ),
        (
            [on_codes("FailJob", 3, 4)],
            job_pod(
                "web-1",
                init_containers=[ended("setup", 3)],
                containers=[ended("main", 4)],
            ),
            exits("web-1", "main", 4, 0),
        ),
    ],
)
def test_a_rule_on_exit_codes(
    rules: list[JSON], pod: Pod, matched: MatchedAction | None
) -> None:
    """Containers come before init containers, rules in their order."""
    assert match(policy(*rules), pod) == matched


@pytest.mark.parametrize(
    ("rules", "conditions", "matched"),
    [
        ([on_conditions("Ignore", DISRUPTED)], [DISRUPTED], MatchedAction("Ignore")),
        ([on_conditions("Ignore", DISRUPTED)], [], None),
        ([on_conditions("Ignore")], [DISRUPTED], None),
        (
            [on_conditions("Ignore", DISRUPTED)],
            [{"type": "DisruptionTarget", "status": "False"}],
            None,
        ),
        (
            [on_conditions("FailJob", {"type": "Bad", "status": "Unknown"}, DISRUPTED)],
            [{"type": "Ready", "status": "False"}, DISRUPTED],
            MatchedAction(
                "FailJob",
                "Pod default/p has condition DisruptionTarget matching FailJob rule "
                "at index 0",
            ),
        ),
        # Exit codes count alone if a rule has both.
        (
            [{**on_codes("Count", 5), **on_conditions("Count", DISRUPTED)}],
            [DISRUPTED],
            None,
        ),
    ],
)
def test_a_rule_on_conditions(
    rules: list[JSON], conditions: list[JSON], matched: MatchedAction | None
) -> None:
    """Type and status must be equal."""
    assert match(policy(*rules), job_pod(conditions=conditions)) == matched


@pytest.mark.parametrize(
    ("action", "counted"),
    [("Ignore", False), ("Count", True), ("FailJob", True), ("FailIndex", True)],
)
def test_only_ignored_failures_do_not_count(action: str, *, counted: bool) -> None:
    """A failure that no rule matches counts, too."""
    assert counts(policy(on_codes(action, 5)), ONE) is counted
    assert counts(policy(on_codes(action, 6)), ONE)
    assert counts(None, ONE)
    assert match(None, ONE) is None
