"""A cache keeps the fields of an object that controllers declare to read."""

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.meta import AnyResource
from controller_manager.informers.reads import Reads, trim_for

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
