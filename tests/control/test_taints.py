"""Tolerations and the taints that they tolerate."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.scheduling import SchedulingSpec, Taint, Toleration
from controller_manager.api.core.v1 import Node
from controller_manager.api.json_objects import JSON
from controller_manager.control.scheduling import required_nodes, tolerates, untolerated

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
    each = toleration(key="dedicated", operator=operator, value=value)
    assert tolerates(each, TAINT, compares_numbers=True) is expected


def test_the_first_taint_that_is_not_tolerated_is_found() -> None:
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


LABELS = {"zone": "a", "disk": "ssd", "cores": "16", "empty": "", "serial": "9" * 20}
NODE = msgspec.convert({"metadata": {"name": "node-1", "labels": LABELS}}, Node)


def fits(**spec: Any) -> bool:
    decoded = msgspec.convert(spec, SchedulingSpec)
    return required_nodes(decoded.node_selector, decoded.affinity).matches(NODE)


def affinity(*terms: JSON) -> JSON:
    required = {"nodeSelectorTerms": list(terms)}
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {name: required}}


def label(key: str, operator: str, *values: str) -> JSON:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}


def field(operator: str, *values: str, key: str = "metadata.name") -> JSON:
    return {"matchFields": [{"key": key, "operator": operator, "values": values}]}


def test_a_pod_without_conditions_fits_everywhere() -> None:
    assert fits()
    assert fits(nodeSelector={}, affinity={})
    assert fits(affinity={"nodeAffinity": {}})


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"zone": "a"}, True),
        ({"zone": "a", "disk": "ssd"}, True),
        ({"zone": "b"}, False),
        ({"zone": "a", "absent": "x"}, False),
        ({"empty": ""}, True),
        ({"absent": ""}, False),
    ],
)
def test_a_node_has_all_selected_labels(selector: JSON, *, expected: bool) -> None:
    """An absent label is not an empty one."""
    assert fits(nodeSelector=selector) is expected


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (label("zone", "In", "b", "a"), True),
        (label("zone", "In", "b"), False),
        (label("absent", "In", "b"), False),
        (label("zone", "NotIn", "b"), True),
        (label("zone", "NotIn", "a"), False),
        (label("absent", "NotIn", "a"), True),
        (label("zone", "Exists"), True),
        (label("absent", "Exists"), False),
        (label("zone", "DoesNotExist"), False),
        (label("absent", "DoesNotExist"), True),
        (label("cores", "Gt", "8"), True),
        (label("cores", "Gt", "16"), False),
        (label("cores", "Lt", "17"), True),
        (label("cores", "Lt", "16"), False),
        (label("absent", "Lt", "16"), False),
        (label("zone", "Gt", "1"), False),
        (label("serial", "Gt", "1"), False),
        (field("In", "node-1"), True),
        (field("In", "node-2"), False),
        (field("NotIn", "node-2"), True),
        (field("NotIn", "node-1"), False),
    ],
)
def test_each_operator_selects_nodes(term: JSON, *, expected: bool) -> None:
    assert fits(affinity=affinity(term)) is expected


@pytest.mark.parametrize(
    "term",
    [
        {},
        label("zone", "In"),
        label("zone", "NotIn"),
        label("zone", "Exists", "a"),
        label("absent", "DoesNotExist", "a"),
        label("cores", "Gt", "eight"),
        label("cores", "Lt", "9223372036854775808"),
        label("cores", "Gt", "\u0661"),
        label("cores", "Gt", "8", "9"),
        label("zone", "Like", "a"),
        label("zone", "NotIn", "no label value!"),
        label("zone", "NotIn", "x" * 64),
        field("In", "node-1", "node-2"),
        field("In"),
        field("Exists"),
        field("In", "node-1", key="metadata.namespace"),
    ],
)
def test_a_term_that_cannot_be_evaluated_selects_no_node(term: JSON) -> None:
    """Other terms still count, as upstream ignores errors."""
    assert not fits(affinity=affinity(term))
    assert fits(affinity=affinity(term, label("zone", "In", "a")))


def test_one_term_must_match_with_all_its_conditions() -> None:
    both = {**label("zone", "In", "a"), **field("In", "node-2")}
    assert not fits(affinity=affinity(both))
    assert fits(affinity=affinity(both, label("disk", "Exists")))
    assert not fits(
        affinity=affinity(label("disk", "Exists")), nodeSelector={"zone": "b"}
    )
    assert not fits(affinity=affinity())
