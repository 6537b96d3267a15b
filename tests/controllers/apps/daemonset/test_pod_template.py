"""The pods that are made from a template, and their nodes."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.apps.daemonset.nodes import target_of
from controller_manager.controllers.apps.daemonset.pod_template import PodTemplates
from tests.controllers.apps.daemonset.cases import daemon_set, for_node

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def spec_of(node: str = "n1", **spec: Any) -> JSON:
    """Return the spec of a pod for a node, made from a template with this spec."""
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": spec}
    templates = PodTemplates(daemon_set(template=template), "h")
    decoded: JSON = msgspec.json.decode(templates.for_node(node).spec)
    return decoded


def test_a_pod_requires_its_node_by_name() -> None:
    """The node affinity that the template requires is replaced, the rest is kept."""
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    affinity = {
        "nodeAffinity": {
            _REQUIRED: {"nodeSelectorTerms": [zone]},
            _PREFERRED: [{"weight": 1, "preference": zone}],
        },
        "podAntiAffinity": {"of": "any kind"},
    }
    assert spec_of("n2", affinity=affinity)["affinity"] == for_node(
        "n2",
        nodeAffinity={_PREFERRED: [{"weight": 1, "preference": zone}]},
        podAntiAffinity={"of": "any kind"},
    )
    assert spec_of("n3")["affinity"] == for_node("n3")
    assert spec_of("n3", affinity=None)["affinity"] == for_node("n3")
    with_null = {"nodeAffinity": None}
    assert spec_of("n3", affinity=with_null)["affinity"] == for_node("n3")


def test_no_field_of_the_template_is_lost() -> None:
    """Also a field that this build does not know."""
    spec: JSON = {
        "containers": [{"name": "c", "fancy": [1.50, {"a": None}]}],
        "future": "x",
    }
    made = spec_of(**spec)
    assert {key: made[key] for key in spec} == spec
    assert made.keys() - spec.keys() == {"affinity", "tolerations"}


def test_labels_tell_the_revision_and_the_template_generation() -> None:
    """The generation is deprecated; an annotation that is no number is ignored."""
    for annotation, more in (
        ("12", {"pod-template-generation": "12"}),
        ("twelve", {}),
        ("", {}),
    ):
        obj = daemon_set()
        annotations = {"deprecated.daemonset.template.generation": annotation}
        metadata = msgspec.structs.replace(obj.metadata, annotations=annotations)
        templates = PodTemplates(msgspec.structs.replace(obj, metadata=metadata), "h")
        assert templates.for_node("n").metadata.labels == {
            "app": "agent",
            "controller-revision-hash": "h",
            **more,
        }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeName": "n1"}, "n1"),
        ({"nodeName": "n1", "affinity": for_node("n2")}, "n1"),
        ({"affinity": for_node("n2")}, "n2"),
        ({}, ""),
        ({"affinity": {}}, ""),
        ({"affinity": {"nodeAffinity": {}}}, ""),
        ({"affinity": {"nodeAffinity": {_REQUIRED: {}}}}, ""),
    ],
)
def test_a_pod_is_for_the_node_that_it_has_or_asks_for(
    spec: JSON, expected: str
) -> None:
    """A pod of another client may belong to no certain node."""
    assert target_of(msgspec.convert({"spec": spec}, Pod)) == expected


def test_a_pod_that_asks_for_several_nodes_is_for_none() -> None:
    """As upstream, which ignores such pods."""
    field = {"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}
    terms = [{"matchFields": [field]}]
    required = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    assert target_of(msgspec.convert({"spec": {"affinity": required}}, Pod)) == ""
