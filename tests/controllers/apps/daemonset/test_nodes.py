"""The fit of nodes for a daemon set."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.scheduling import Toleration
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.controllers.apps.daemonset.nodes import Fit, placement_of
from controller_manager.controllers.apps.daemonset.pod_template import (
    with_default_tolerations,
)
from tests.controllers.apps.daemonset.cases import node

_WELL_KNOWN = "node.kubernetes.io"


def fit(*taints: str, compares_numbers: bool = False, **spec: Any) -> Fit:
    """Return the fit of node n1 with these taints for a template with this spec."""
    encoded = msgspec.json.encode({"spec": spec})
    template = msgspec.json.decode(encoded, type=PodTemplateSpec)
    placement = placement_of(template, compares_numbers=compares_numbers)
    return placement.fit(node("n1", *taints, pool="a"))


def test_every_node_must_have_a_pod_by_default() -> None:
    """Also a node with the taint effect PreferNoSchedule."""
    assert fit() is Fit.RUN
    assert fit("dedicated:PreferNoSchedule") is Fit.RUN


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"pool": "a"}}, Fit.RUN),
        ({"nodeSelector": {"pool": "b"}}, Fit.NONE),
        ({"nodeName": "n1"}, Fit.RUN),
        ({"nodeName": "n2"}, Fit.NONE),
    ],
)
def test_a_template_chooses_nodes_by_name_and_labels(
    spec: dict[str, Any], expected: Fit
) -> None:
    """Required node affinity is in tests/control/scheduling."""
    assert fit(**spec) is expected


def test_an_untolerated_taint_keeps_pods_or_removes_them() -> None:
    """With NoSchedule a running pod stays; with NoExecute it does not."""
    assert fit("dedicated:NoSchedule") is Fit.KEEP
    assert fit("dedicated:NoExecute") is Fit.NONE
    assert fit("dedicated:NoSchedule", "other:NoExecute") is Fit.NONE
    tolerant = {"key": "dedicated", "operator": "Exists"}
    assert fit("dedicated:NoSchedule", tolerations=[tolerant]) is Fit.RUN
    assert fit("dedicated:NoExecute", tolerations=[tolerant]) is Fit.RUN
    both = ("dedicated:NoExecute", "other:NoSchedule")
    assert fit(*both, tolerations=[tolerant]) is Fit.KEEP
    assert fit("dedicated:NoSchedule", nodeSelector={"pool": "b"}) is Fit.NONE


@pytest.mark.parametrize(
    ("taint", "expected"),
    [
        ("not-ready:NoExecute", Fit.RUN),
        ("unreachable:NoExecute", Fit.RUN),
        ("disk-pressure:NoSchedule", Fit.RUN),
        ("memory-pressure:NoSchedule", Fit.RUN),
        ("pid-pressure:NoSchedule", Fit.RUN),
        ("unschedulable:NoSchedule", Fit.RUN),
        ("not-ready:NoSchedule", Fit.KEEP),
        ("network-unavailable:NoSchedule", Fit.KEEP),
    ],
)
def test_a_daemon_pod_comes_to_a_node_with_problems(taint: str, expected: Fit) -> None:
    """Except to a node that is not ready for the first time, or has no network."""
    assert fit(f"{_WELL_KNOWN}/{taint}") is expected


def test_on_the_host_network_no_network_is_needed() -> None:
    """The pods of network plugins use the host network."""
    taint = f"{_WELL_KNOWN}/network-unavailable:NoSchedule"
    assert fit(taint, hostNetwork=True) is Fit.RUN


def test_numbers_are_compared_only_with_the_gate() -> None:
    """TaintTolerationComparisonOperators."""
    below = {"key": "load", "operator": "Lt", "value": "9", "effect": "NoSchedule"}
    taint = "load=5:NoSchedule"
    assert fit(taint, tolerations=[below]) is Fit.KEEP
    assert fit(taint, tolerations=[below], compares_numbers=True) is Fit.RUN


def test_a_default_toleration_replaces_one_that_is_limited_in_time() -> None:
    """It has the same place; all others follow in upstream's order."""
    limited = Toleration(
        key=f"{_WELL_KNOWN}/not-ready",
        operator="Exists",
        effect="NoExecute",
        toleration_seconds=5,
    )
    own = Toleration(key="dedicated", value="x")
    merged = with_default_tolerations((limited, own), host_network=True)
    assert [
        (each.key.removeprefix(f"{_WELL_KNOWN}/"), each.effect, each.toleration_seconds)
        for each in merged
    ] == [
        ("not-ready", "NoExecute", None),
        ("dedicated", "", None),
        ("unreachable", "NoExecute", None),
        ("disk-pressure", "NoSchedule", None),
        ("memory-pressure", "NoSchedule", None),
        ("pid-pressure", "NoSchedule", None),
        ("unschedulable", "NoSchedule", None),
        ("network-unavailable", "NoSchedule", None),
    ]
