"""Equality of pod templates, and their hashes (deployment_util.go)."""

from collections.abc import Callable
from typing import Any

import msgspec

from controller_manager.api.apps.v1 import POD_TEMPLATE_HASH
from controller_manager.api.core.equality import canonical_spec, without_empty
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.meta import ObjectMeta
from controller_manager.control.hashes import fnv1a, safe_encode
from controller_manager.control.mutations import first_difference


def equal_ignoring_hash(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Tell whether two templates make the same pods (EqualIgnoreHash).

    The pod-template-hash label does not count; absent, null and empty are the
    same for lists and maps; quantities are compared by their amounts.
    """
    return equality_with(one)(other)


def equality_with(template: PodTemplateSpec) -> Callable[[PodTemplateSpec], bool]:
    """Return `equal_ignoring_hash` for one template and many others.

    The canonical form of `template` is made only once, and only if it is needed.
    """
    metadata = _without_hash(template.metadata)
    spec: dict[str, Any] | None = None

    def is_equal(other: PodTemplateSpec) -> bool:
        nonlocal spec
        others = _without_hash(other.metadata)
        if others != metadata and _canonical_meta(others) != _canonical_meta(metadata):
            return False
        if other.spec == template.spec:
            return True
        if spec is None:
            spec = canonical_spec(msgspec.json.decode(template.spec))
        return canonical_spec(msgspec.json.decode(other.spec)) == spec

    return is_equal


def may_be_equal(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Tell whether two templates differ at most by fields that one of them lacks.

    One of the objects may have been read before an upgrade of the API server, and so
    lack a default that the new API server adds. If a field that both have differs, or
    labels or annotations differ, the templates are different.
    """
    if _canonical_meta(one.metadata) != _canonical_meta(other.metadata):
        return False
    specs = (msgspec.json.decode(each.spec) for each in (one, other))
    return not _contradict(*map(canonical_spec, specs))


def _contradict(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Tell whether a field that both have differs."""
    if isinstance(one, dict) and isinstance(other, dict):
        return any(_contradict(one[key], other[key]) for key in one.keys() & other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) != len(other) or any(map(_contradict, one, other))
    return bool(one != other)


def canonical_template(template: PodTemplateSpec) -> dict[str, Any]:
    """Return the template without its hash label, in the form of all equal ones."""
    spec = canonical_spec(msgspec.json.decode(template.spec))
    return {"metadata": _canonical_meta(template.metadata), "spec": spec}


def changed_field(sent: PodTemplateSpec, stored: PodTemplateSpec) -> str:
    """Return the first field in which a stored template differs, "" for none."""
    if equal_ignoring_hash(sent, stored):
        return ""
    return first_difference(
        canonical_template(sent), canonical_template(stored), "spec.template"
    )


def _without_hash(metadata: ObjectMeta) -> ObjectMeta:
    labels = {
        k: v for k, v in (metadata.labels or {}).items() if k != POD_TEMPLATE_HASH
    }
    return msgspec.structs.replace(metadata, labels=labels)


def _canonical_meta(metadata: ObjectMeta) -> dict[str, Any]:
    pruned: dict[str, Any] = without_empty(msgspec.to_builtins(_without_hash(metadata)))
    return pruned


def template_hash(template: PodTemplateSpec, collision_count: int | None) -> str:
    """Return the name suffix and label value of a template's replica set.

    FNV-1a over the canonical template, in upstream's alphabet without vowels.
    The value differs from upstream's, which hashes a dump of Go structs. This is
    harmless, because a replica set is recognised by its template alone.
    """
    canonical = msgspec.json.encode(canonical_template(template), order="deterministic")
    if collision_count is not None:
        canonical += str(collision_count).encode()
    return safe_encode(fnv1a(canonical))
