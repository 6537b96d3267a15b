"""Tolerations and the taints that they tolerate."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.scheduling import Taint, Toleration
from controller_manager.control.scheduling import tolerates, untolerated

TAINT = Taint(key="dedicated", value="5", effect="NoSchedule")


def toleration(**fields: Any) -> Toleration:
    return msgspec.convert(fields, Toleration)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"key": "dedicated", "value": "5"}, True),
        ({"key": "dedicated", "operator": "Equal", "value": "5"}, True),
        ({"key": "dedicated", "operator": "Equal", "value": "6"}, False),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "dedicated", "operator": "Like", "value": "5"}, False),
        ({"key": "dedicated", "operator": "Lt", "value": "6"}, False),
    ],
)
def test_a_toleration_fits_by_key_value_and_effect(
    fields: dict[str, Any], *, expected: bool
) -> None:
    """An empty key or effect fits all; without the gate no numbers are compared."""
    assert tolerates(toleration(**fields), TAINT) is expected


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("Lt", "6", True),
        ("Lt", "5", False),
        ("Gt", "4", True),
        ("Gt", "5", False),
        ("Gt", "-1", True),
        ("Gt", "04", False),
        ("Gt", "four", False),
        ("Gt", "4\N{ARABIC-INDIC DIGIT FOUR}", False),
        ("Gt", "-9223372036854775808", True),
        ("Gt", "-9223372036854775809", False),
        ("Lt", "9223372036854775807", True),
        ("Lt", "9223372036854775808", False),
    ],
)
def test_with_the_gate_tolerations_compare_numbers(
    operator: str, value: str, *, expected: bool
) -> None:
    """The taint's value is below, or above, that of the toleration."""
    each = toleration(key="dedicated", operator=operator, value=value)
    assert tolerates(each, TAINT, compares_numbers=True) is expected


def test_the_first_taint_that_is_not_tolerated_is_found() -> None:
    """Among those of the effects that count."""
    soft = Taint(key="soft", effect="PreferNoSchedule")
    hard = Taint(key="hard", effect="NoExecute")
    both = (TAINT, hard)
    every = toleration(operator="Exists")
    of_dedicated = toleration(key="dedicated", operator="Exists")
    assert untolerated((soft, *both), (), ("NoSchedule", "NoExecute")) == TAINT
    assert untolerated(both, (of_dedicated,), ("NoSchedule", "NoExecute")) == hard
    assert untolerated(both, (), ("NoExecute",)) == hard
    assert untolerated(both, (every,), ("NoSchedule", "NoExecute")) is None
    assert untolerated(None, (), ("NoSchedule",)) is None
