"""Declared fields: what is kept, and which changes are found."""

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.meta import AnyResource
from controller_manager.informers.changes import Comparison, DependsOn
from controller_manager.informers.reads import Reads, Step, trim_for
from tests.informers.parts import PARTS, parts_of, pods

COST: Final = "controller.kubernetes.io/pod-deletion-cost"

PATHS: Final = (
    "metadata",
    "metadata.annotations",
    f"metadata.annotations[{COST}]",
    "metadata.generation",
    "metadata.labels",
    "spec",
    "spec.initContainers",
    "spec.initContainers.name",
    "spec.nodeName",
    "status",
    "status.conditions",
    "status.conditions.status",
    "status.conditions[PodScheduled]",
    "status.conditions[Ready]",
    "status.containerStatuses.restartCount",
    "status.initContainerStatuses",
    "status.initContainerStatuses.name",
    "status.initContainerStatuses.restartCount",
    "status.phase",
    "status.reason",
)
IDENTITY: Final = frozenset(
    f"metadata.{name}"
    for name in (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "labels",
        "ownerReferences",
        "finalizers",
    )
)

WORDS: Final = st.sampled_from(["a", "b"])


def some(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=values)


def lists_of(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(some(**values), max_size=3)


CONDITION_TYPES: Final = st.sampled_from(["Ready", "PodScheduled", "Initialized"])
STATUSES: Final = lists_of(name=WORDS, restartCount=st.integers(0, 3))
POD: Final = some(
    metadata=some(
        name=WORDS,
        generation=st.integers(1, 3),
        labels=st.dictionaries(WORDS, WORDS),
        annotations=st.fixed_dictionaries({}, optional={COST: WORDS}),
        ownerReferences=lists_of(kind=WORDS, uid=WORDS),
    ),
    spec=some(nodeName=WORDS, initContainers=lists_of(name=WORDS, restartPolicy=WORDS)),
    status=some(
        phase=WORDS,
        reason=WORDS,
        conditions=lists_of(
            type=CONDITION_TYPES, status=WORDS, lastTransitionTime=WORDS
        ),
        containerStatuses=lists_of(restartCount=st.integers(0, 3)),
        initContainerStatuses=STATUSES,
    ),
)


def projected(value: Any, at: str, paths: frozenset[str]) -> Any:
    """Return what `paths` say of a value as it is on the wire, by comparing names."""
    if at in paths:
        return value
    if isinstance(value, list):
        return entries(value, at, paths)
    kept = {}
    for name, each in value.items():
        there = f"{at}[{name}]" if "/" in name else f"{at}.{name}".lstrip(".")
        if any(
            path == there or path.startswith((f"{there}.", f"{there}["))
            for path in paths
        ):
            kept[name] = projected(each, there, paths)
    return kept


def entries(value: list[Any], at: str, paths: frozenset[str]) -> list[Any]:
    if not any(path.startswith(f"{at}.") for path in paths):
        return [each for each in value if f"{at}[{each.get('type')}]" in paths]
    return [
        each if f"{at}[{each.get('type')}]" in paths else projected(each, at, paths)
        for each in value
    ]


@given(pod=POD, paths=st.lists(st.sampled_from(PATHS), min_size=1), cut=st.integers(0))
def test_the_union_of_the_declared_fields_is_kept_and_nothing_else(
    pod: dict[str, Any], paths: list[str], cut: int
) -> None:
    middle = cut % len(paths)
    one, other = paths[:middle] or paths, paths[middle:]
    trim = trim_for([Reads(PODS, *one), Reads(PODS, *other)])
    subject = msgspec.convert(pod, Pod)
    if trim is not None:
        trim(subject)
    wanted = projected(pod, "", frozenset(paths) | IDENTITY)
    assert subject == msgspec.convert(wanted, Pod)
    # Defaults are shared by all objects.
    assert Pod() == msgspec.json.decode(b"{}", type=Pod)
    assert msgspec.to_builtins(Pod()) == {}


@pytest.mark.parametrize(
    "declared",
    [
        (),
        (Reads(PODS),),
        (Reads(PODS, "spec.nodeName"), Reads(PODS)),
        (Reads(PODS, "metadata", "spec"), Reads(PODS, "status")),
    ],
)
def test_nothing_is_trimmed_if_all_is_read(declared: tuple[Reads, ...]) -> None:
    assert trim_for(declared) is None


def test_nodes_and_jobs_are_trimmed_alike() -> None:
    node = {
        "metadata": {
            "name": "n",
            "resourceVersion": "7",
            "annotations": {"node.alpha.kubernetes.io/ttl": "15"},
        },
        "spec": {"taints": [{"key": "a"}]},
        "status": {
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "DiskPressure", "status": "False"},
            ]
        },
    }
    only_ttl = "metadata.annotations[node.alpha.kubernetes.io/ttl]"
    assert trimmed(NODES, Node, node, only_ttl) == {"metadata": node["metadata"]}
    assert trimmed(NODES, Node, node, "status.conditions[Ready]") == {
        "metadata": {"name": "n", "resourceVersion": "7"},
        "status": {"conditions": ({"type": "Ready", "status": "True"},)},
    }


def test_an_entry_that_one_controller_reads_whole_is_kept_whole() -> None:
    """Even if another controller reads only one field of all entries."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "t"}
    other = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "t"}
    wire = {"status": {"conditions": [ready, other]}}
    paths = "status.conditions.status", "status.conditions[Ready]"
    assert trimmed(PODS, Pod, wire, *paths) == {
        "status": {"conditions": (ready, {"status": "True"})}
    }


def trimmed(
    resource: AnyResource, object_type: type, wire: dict[str, Any], *paths: str
) -> Any:
    subject: Any = msgspec.convert(wire, object_type)
    trim = trim_for([Reads(resource, *paths)])
    assert trim is not None
    trim(subject)
    return msgspec.to_builtins(subject)


def test_a_path_is_taken_step_by_step() -> None:
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


_PATHS = tuple(PARTS)


def _comparison(*paths: str) -> tuple[Comparison, dict[str, int]]:
    comparison = Comparison(Pod)
    return comparison, {path: comparison.bits_of(DependsOn(path)) for path in paths}


@given(old=pods(), new=pods(), paths=st.sets(st.sampled_from(_PATHS), min_size=1))
def test_exactly_the_differences_are_found(old: Pod, new: Pod, paths: set[str]) -> None:
    comparison, bits = _comparison(*sorted(paths))
    changed = comparison.changed(old, new)
    found = {path for path, bit in bits.items() if changed & bit}
    before, after = parts_of(old), parts_of(new)
    assert found == {path for path in paths if before[path] != after[path]}


def test_a_part_that_is_declared_later_is_compared_from_then_on() -> None:
    """A controller may add its handler while the informer runs."""
    comparison, bits = _comparison("status.phase")
    old, new = (
        msgspec.convert({"spec": {"nodeName": name}}, Pod) for name in ("", "node")
    )
    assert comparison.changed(old, new) == 0
    bits["spec.nodeName"] = comparison.bits_of(DependsOn("spec.nodeName"))
    assert comparison.changed(old, new) == bits["spec.nodeName"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("spec.nodename", "PodSpec has no 'nodename'"),
        ("status.conditions.status", "entries of a list are compared as a whole"),
        ("spec..nodeName", "a path is like"),
    ],
)
def test_a_path_that_cannot_be_compared_is_refused(path: str, text: str) -> None:
    """At once: a handler that is never called would be noticed late."""
    with pytest.raises(ValueError, match=text):
        Comparison(Pod).bits_of(DependsOn(path))


def test_a_comparison_of_nothing_finds_nothing() -> None:
    """A resource may have only handlers that get every change."""
    old, new = (msgspec.convert({"spec": {"nodeName": name}}, Pod) for name in "ab")
    assert Comparison(Pod).changed(old, new) == 0


def test_the_entries_of_a_list_are_compared_by_their_type() -> None:
    comparison, bits = _comparison("status.conditions[Ready]", "status.conditions")
    ready, other = {"type": "Ready", "status": "True"}, {"type": "Other"}
    not_ready = {"type": "Ready", "status": "False"}
    one, moved, two, lost = (
        _with_conditions(*each)
        for each in ((ready, other), (other, ready), (ready, not_ready), (other,))
    )
    entry, whole = bits.values()
    assert comparison.changed(one, moved) == whole
    assert (
        comparison.changed(one, two) == comparison.changed(one, lost) == entry | whole
    )


def _with_conditions(*conditions: dict[str, Any]) -> Pod:
    return msgspec.convert({"status": {"conditions": conditions}}, Pod)
