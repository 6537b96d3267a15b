"""Declarations of read fields are checked when they are created."""

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.informers.reads import Reads, Step


def test_a_path_is_taken_step_by_step() -> None:
    """A field, a field of each entry, entries of a type, a key of a map."""
    reads = Reads(
        NODES,
        "spec",
        "spec.taints.key",
        "status.conditions[Ready]",
        "metadata.annotations[node.alpha.kubernetes.io/ttl]",
    )
    assert reads.steps() == [
        (Step("spec"),),
        (Step("spec"), Step("taints"), Step("key")),
        (Step("status"), Step("conditions", "Ready")),
        (Step("metadata"), Step("annotations"), Step("node.alpha.kubernetes.io/ttl")),
    ]


def test_declarations_are_values() -> None:
    """Equal if they say the same, so that they can be kept in sets."""
    assert {Reads(PODS, "spec"), Reads(PODS, "spec")} == {Reads(PODS, "spec")}
    assert Reads(PODS).paths == ()


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("spec.nodename", "PodSpec has no 'nodename', it has affinity, nodeName"),
        ("spec.node_name", "PodSpec has no 'node_name', it has affinity, nodeName"),
        ("state", "Pod has no 'state', it has metadata, spec, status"),
        ("spec.nodeName.x", "PodSpec.nodeName has no fields"),
        ("metadata.labels.app", "PodMeta.labels has no fields"),
        ("metadata.annotations[a/b]", "PodAnnotations has no 'a/b', it has controller"),
        ("metadata.labels[app]", "PodMeta.labels has no entries with a type"),
        ("spec.initContainers[a]", "PodSpec.initContainers has no entries with a type"),
        ("status.conditions[Ready].status", "entries of PodStatus.conditions are kept"),
        ("status.conditions[]", "a path is like 'status.conditions[Ready]'"),
        ("", "a path is like 'status.conditions[Ready]'"),
        ("spec..nodeName", "a path is like 'status.conditions[Ready]'"),
    ],
)
def test_an_unknown_path_is_refused_by_name(path: str, problem: str) -> None:
    """Otherwise a typing error would drop the field from the cache."""
    with pytest.raises(ValueError, match="cannot read") as caught:
        Reads(PODS, "spec.nodeName", path)
    assert str(caught.value).startswith(f"cannot read {path!r} of pods: {problem}")


def test_a_complete_type_is_read_whole() -> None:
    """A PUT of its objects would delete the fields that the cache has dropped."""
    assert Reads(DEPLOYMENTS).steps() == []
    with pytest.raises(ValueError, match="cannot read") as caught:
        Reads(DEPLOYMENTS, "spec.replicas")
    assert str(caught.value) == (
        "cannot read 'spec.replicas' of deployments.apps: Deployment is no projection, "
        "so its objects are cached whole; declare it without paths"
    )
