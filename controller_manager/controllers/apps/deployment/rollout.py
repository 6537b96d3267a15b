"""A rollout: the new and the old replica sets, told by their templates.

Upstream: deployment_util.go.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    POD_TEMPLATE_HASH,
    Deployment,
    ReplicaSet,
    ReplicaSetSpec,
)
from controller_manager.api.core.pod_templates import canonical_spec, without_empty
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.meta import (
    ObjectMeta,
    controller_reference,
    is_controlled_by,
    labels_of,
)
from controller_manager.api.selectors import (
    LabelSelector,
    SelectorError,
    compile_selector,
)
from controller_manager.control.creation_delays import first_difference
from controller_manager.control.hashes import fnv1a, safe_encode

RECREATE: Final = "Recreate"
ROLLING_UPDATE: Final = "RollingUpdate"

LABELS: Final = "metadata.labels"
"""The field whose change makes a deployment release its new replica set."""

_MAX_NAME_LENGTH: Final = 253
_UNUSABLE: Final = "This deployment cannot be processed"


class Rollout(Struct, frozen=True):
    """A deployment and its replica sets, as one sync sees them.

    `new` is the replica set with the current template, if it exists; `is_created` says
    that this sync has created it. `old` has all other replica sets.
    """

    deployment: Deployment
    new: ReplicaSet | None
    old: tuple[ReplicaSet, ...]
    is_created: bool = False

    @property
    def all(self) -> tuple[ReplicaSet, ...]:
        """All replica sets, the new one last."""
        return self.old if self.new is None else (*self.old, self.new)


def find_rollout(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> Rollout:
    """Divide the replica sets into the new one, the oldest of equals, and old ones."""
    ordered = sorted(replica_sets, key=by_age)
    is_current = equality_with(deployment.spec.template)
    new = next((each for each in ordered if is_current(each.spec.template)), None)
    return Rollout(deployment, new, tuple(each for each in ordered if each is not new))


def by_age(replica_set: ReplicaSet) -> tuple[str, str]:
    """Return a sort key: older replica sets first, then by name."""
    metadata = replica_set.metadata
    return metadata.creation_timestamp or "", metadata.name


class Refusal(Struct, frozen=True):
    """Why a deployment is left alone until its spec is corrected, as its event says."""

    reason: str
    message: str


def refusal_of(deployment: Deployment) -> Refusal | None:
    """Return why the selector cannot be used, `None` if it can."""
    try:
        selector = compile_selector(deployment.spec.selector)
    except SelectorError as error:
        return Refusal("InvalidSelector", f"{_UNUSABLE}: {error}")
    if selector.is_empty:
        message = (
            "This deployment is selecting all pods. A non-empty selector is required."
        )
        return Refusal("SelectingAll", message)
    if not selector.matches(deployment.spec.template.metadata.labels or {}):
        message = "the selector does not match the labels of the pod template"
        return Refusal("InvalidTemplate", f"{_UNUSABLE}: {message}")
    return None


# Pod templates.


def equal_ignoring_hash(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Tell whether two templates make the same pods (EqualIgnoreHash)."""
    # Absent, null and empty are the same for lists and maps; quantities are compared by
    # their amounts.
    return equality_with(one)(other)


def equality_with(template: PodTemplateSpec) -> Callable[[PodTemplateSpec], bool]:
    """Return `equal_ignoring_hash` for one template and many others."""
    # The canonical form of the template is made only once, and only if it is needed.
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
    """Tell whether two templates differ at most by fields that one of them lacks."""
    # One of the objects may have been read before an upgrade of the API server, and so
    # lack a default that the new API server adds.
    if _canonical_meta(one.metadata) != _canonical_meta(other.metadata):
        return False
    specs = (msgspec.json.decode(each.spec) for each in (one, other))
    return not _contradict(*map(canonical_spec, specs))


def _contradict(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON value
    if isinstance(one, dict) and isinstance(other, dict):
        return any(_contradict(one[key], other[key]) for key in one.keys() & other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) != len(other) or any(map(_contradict, one, other))
    return bool(one != other)


def changed_field(deployment: Deployment, sent: ReplicaSet, stored: ReplicaSet) -> str:
    """Return a changed field by which no replica set is found again, "" for none."""
    # The deployment does not recognise another template, and releases a replica set
    # whose labels do not match its selector.
    one, other = sent.spec.template, stored.spec.template
    if not equal_ignoring_hash(one, other):
        first, second = map(_canonical_template, (one, other))
        return first_difference(first, second, "spec.template")
    if compile_selector(deployment.spec.selector).matches(labels_of(stored)):
        return ""
    return first_difference(labels_of(sent), labels_of(stored), LABELS)


def template_hash(template: PodTemplateSpec, collision_count: int | None) -> str:
    """Return the name suffix and label value of a template's replica set."""
    # The value differs from upstream's, which hashes a dump of Go structs. This is
    # harmless, because a replica set is recognised by its template alone.
    content = _canonical_template(template)
    canonical = msgspec.json.encode(content, order="deterministic")
    if collision_count is not None:
        canonical += str(collision_count).encode()
    return safe_encode(fnv1a(canonical))


def _canonical_template(template: PodTemplateSpec) -> dict[str, Any]:
    spec = canonical_spec(msgspec.json.decode(template.spec))
    return {"metadata": _canonical_meta(template.metadata), "spec": spec}


def _canonical_meta(metadata: ObjectMeta) -> dict[str, Any]:
    pruned: dict[str, Any] = without_empty(msgspec.to_builtins(_without_hash(metadata)))
    return pruned


def _without_hash(metadata: ObjectMeta) -> ObjectMeta:
    labels = metadata.labels or {}
    return replace(
        metadata, labels={k: v for k, v in labels.items() if k != POD_TEMPLATE_HASH}
    )


# The new replica set.


def new_replica_set(
    deployment: Deployment, replicas: int, annotations: dict[str, str]
) -> ReplicaSet:
    """Return the replica set of the deployment's current template."""
    template = deployment.spec.template
    digest = template_hash(template, deployment.status.collision_count)
    labels = {**(template.metadata.labels or {}), POD_TEMPLATE_HASH: digest}
    selector = deployment.spec.selector or LabelSelector()
    owner = controller_reference(deployment, DEPLOYMENTS)
    stem = deployment.metadata.name[: _MAX_NAME_LENGTH - len(digest) - 1]
    match_labels = {**(selector.match_labels or {}), POD_TEMPLATE_HASH: digest}
    metadata = replace(template.metadata, labels=labels)
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{stem}-{digest}",
            namespace=deployment.metadata.namespace,
            labels=labels,
            annotations=annotations,
            owner_references=(owner,),
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            min_ready_seconds=deployment.spec.min_ready_seconds,
            selector=replace(selector, match_labels=match_labels),
            template=replace(template, metadata=metadata),
        ),
    )


def is_the_new_one(deployment: Deployment, existing: ReplicaSet) -> bool:
    """Tell whether the replica set of that name has the template and this owner."""
    return is_controlled_by(existing, deployment) and equal_ignoring_hash(
        existing.spec.template, deployment.spec.template
    )
