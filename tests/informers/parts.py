"""Random pods, and the parts of them that handlers and indexes name."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from controller_manager.api.core.v1 import Pod

_NAMES: Final = st.sampled_from(("a", "b"))
_KINDS: Final = st.sampled_from(("ReplicaSet", "Job", "Widget"))


def _entries(kind: str) -> Callable[[Any], Any]:
    def find(pod: Any) -> Any:
        found = pod.get("status", {}).get("conditions") or ()
        return [each for each in found if each.get("type") == kind]

    return find


def _field(*names: str) -> Callable[[Any], Any]:
    def find(pod: Any) -> Any:
        for name in names:
            if not isinstance(pod, dict):
                return None
            pod = pod.get(name)
        return pod

    return find


PARTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "metadata.labels": _field("metadata", "labels"),
    "metadata.ownerReferences": _field("metadata", "ownerReferences"),
    "metadata.finalizers": _field("metadata", "finalizers"),
    "metadata.deletionTimestamp": _field("metadata", "deletionTimestamp"),
    "metadata.annotations": _field("metadata", "annotations"),
    "spec": _field("spec"),
    "spec.nodeName": _field("spec", "nodeName"),
    "spec.tolerations": _field("spec", "tolerations"),
    "status.phase": _field("status", "phase"),
    "status.podIP": _field("status", "podIP"),
    "status.conditions": _field("status", "conditions"),
    "status.conditions[Ready]": _entries("Ready"),
    "status.conditions[Other]": _entries("Other"),
}
"""The tested paths, and a function that finds each in the JSON of a pod."""


def _owner(kind: str, *, controller: bool) -> dict[str, Any]:
    return {"kind": kind, "name": "o", "uid": kind, "controller": controller}


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def pods(name: str = "p") -> st.SearchStrategy[Pod]:
    owner = st.builds(_owner, _KINDS, controller=st.booleans())
    condition = st.fixed_dictionaries(
        {
            "type": st.sampled_from(("Ready", "Other", "Third")),
            "status": st.sampled_from(("True", "False")),
        }
    )
    metadata = _some(
        labels=st.dictionaries(_NAMES, _NAMES, min_size=1, max_size=1),
        ownerReferences=st.lists(owner, min_size=1, max_size=2),
        finalizers=st.lists(_NAMES, min_size=1, max_size=1),
        deletionTimestamp=st.just("2026-01-01T00:00:00Z"),
        annotations=st.fixed_dictionaries(
            {"controller.kubernetes.io/pod-deletion-cost": _NAMES}
        ),
    )
    spec = _some(
        nodeName=_NAMES,
        hostname=_NAMES,
        tolerations=st.lists(
            st.fixed_dictionaries({"key": _NAMES}), min_size=1, max_size=1
        ),
    )
    status = _some(
        phase=st.sampled_from(("Pending", "Running")),
        podIP=_NAMES,
        conditions=st.lists(condition, min_size=1, max_size=3),
    )
    return st.builds(_made, st.just(name), metadata, spec, status)


def _made(
    name: str, metadata: dict[str, Any], spec: dict[str, Any], status: dict[str, Any]
) -> Pod:
    identity = {"name": name, "namespace": "n", "uid": name}
    return msgspec.convert(
        {"metadata": {**metadata, **identity}, "spec": spec, "status": status}, Pod
    )


def parts_of(pod: Pod) -> dict[str, Any]:
    encoded = msgspec.json.decode(msgspec.json.encode(pod))
    return {path: find(encoded) for path, find in PARTS.items()}
