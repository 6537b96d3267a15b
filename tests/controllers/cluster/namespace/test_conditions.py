"""The conditions in the status of a namespace."""

from collections import Counter

from controller_manager.api.core.v1 import NamespaceCondition
from controller_manager.controllers.cluster.namespace.conditions import (
    Findings,
    updated_conditions,
)


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    """Only its reason and message change."""
    first = updated_conditions((), Findings(finalizers=Counter({"a/b": 1})), "t1")
    second = updated_conditions(first, Findings(finalizers=Counter({"a/b": 2})), "t2")
    third = updated_conditions(second, Findings(), "t3")
    times = [
        [each.last_transition_time for each in conditions]
        for conditions in (first, second, third)
    ]
    assert times == [["t1"] * 5, ["t1"] * 5, ["t1"] * 4 + ["t3"]]
    assert second[-1] == NamespaceCondition(
        type="NamespaceFinalizersRemaining",
        status="True",
        last_transition_time="t1",
        reason="SomeFinalizersRemain",
        message="Some content in the namespace has finalizers remaining: a/b in 2 "
        "resource instances",
    )
    assert updated_conditions(third, Findings(), "t4") == third
