"""A success policy is satisfied by indexes, by their number, or by both."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.batch.v1 import SuccessPolicy
from controller_manager.controllers.batch.job.indexes import IndexSet
from controller_manager.controllers.batch.job.status import satisfied


@pytest.mark.parametrize(
    ("rules", "succeeded", "completions", "index"),
    [
        ([], "0-9", 10, None),
        ([{"succeededCount": 3}], "0-2", 10, 0),
        ([{"succeededCount": 3}], "0,5", 10, None),
        ([{"succeededIndexes": "0,2-4"}], "0,2,3", 10, None),
        ([{"succeededIndexes": "0,2-4"}], "0-4,7", 10, 0),
        ([{"succeededIndexes": "0-9", "succeededCount": 2}], "1,8", 10, 0),
        ([{"succeededIndexes": "0-4", "succeededCount": 2}], "1,8", 10, None),
        ([{"succeededIndexes": "9"}, {"succeededCount": 1}], "3", 10, 1),
        ([{"succeededCount": 1}, {"succeededIndexes": "3"}], "3", 10, 0),
        # The job was made smaller, so the rule asks for less.
        ([{"succeededIndexes": "0-9"}], "0-2", 3, 0),
        ([{"succeededIndexes": "5-9"}], "0-2", 3, None),
        ([{"succeededIndexes": ""}], "0-2", 3, None),
        ([{}], "0-2", 3, None),
        ([{"succeededCount": 1}], "", 3, None),
    ],
)
def test_the_first_satisfied_rule_is_named(
    rules: list[dict[str, Any]], succeeded: str, completions: int, index: int | None
) -> None:
    """The message is upstream's."""
    policy = msgspec.convert({"rules": rules}, SuccessPolicy)
    indexes = IndexSet.parse(succeeded, completions)
    message = None if index is None else f"Matched rules at index {index}"
    assert satisfied(policy, indexes, completions) == message


def test_a_job_without_a_policy_needs_all_its_indexes() -> None:
    """There is no message."""
    assert satisfied(None, IndexSet(((0, 9),)), 10) is None
