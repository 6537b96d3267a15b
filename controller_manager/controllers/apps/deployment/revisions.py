"""Which replica set belongs to which template (deployment_util.go)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    POD_TEMPLATE_HASH,
    Deployment,
    ReplicaSet,
    ReplicaSetSpec,
)
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.meta import ObjectMeta, annotations_of
from controller_manager.api.owners import controller_reference
from controller_manager.api.selectors import LabelSelector

REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO: Final = "deprecated.deployment.rollback.to"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

NOT_COPIED: Final = frozenset(
    (
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        ROLLBACK_TO,
        LAST_APPLIED,
    )
)
"""Annotations that a replica set does not inherit from its deployment."""

_MAX_HISTORY_LENGTH: Final = 2000
_MAX_NAME_LENGTH: Final = 253
_SAFE_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619


@dataclass(frozen=True, slots=True)
class Rollout:
    """A deployment and its replica sets, as one sync sees them.

    `new` is the one of the current template, if it exists; `old` all others.
    """

    deployment: Deployment
    new: ReplicaSet | None
    old: tuple[ReplicaSet, ...]

    @property
    def all(self) -> tuple[ReplicaSet, ...]:
        """All replica sets, the new one last."""
        return self.old if self.new is None else (*self.old, self.new)

    def replace(self, changed: ReplicaSet) -> "Rollout":
        """Return the rollout with a newer version of one replica set."""

        def newest(replica_set: ReplicaSet) -> ReplicaSet:
            same = replica_set.metadata.uid == changed.metadata.uid
            return changed if same else replica_set

        new = newest(self.new) if self.new is not None else None
        return Rollout(self.deployment, new, tuple(map(newest, self.old)))


def find_rollout(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> Rollout:
    """Tell the new replica set from the old ones.

    Should several have the current template, the oldest is the new one, so
    that every sync picks the same.
    """
    ordered = sorted(replica_sets, key=by_age)
    template = deployment.spec.template
    new = next(
        (each for each in ordered if equal_ignoring_hash(each.spec.template, template)),
        None,
    )
    return Rollout(deployment, new, tuple(each for each in ordered if each is not new))


def by_age(replica_set: ReplicaSet) -> tuple[str, str]:
    """Sort key: older first, then by name."""
    metadata = replica_set.metadata
    return metadata.creation_timestamp or "", metadata.name


# Templates.

_EMPTY_IS_ABSENT: Final = frozenset(
    (
        "annotations",
        "labels",
        "limits",
        "matchLabels",
        "nodeSelector",
        "overhead",
        "requests",
        "resources",
    )
)
"""Fields that are maps in Go, or structs that are always written.

Anything else that is an empty object is a pointer there, and then being
present means something: ``emptyDir: {}`` is a volume.
"""


def equal_ignoring_hash(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Tell whether two templates make the same pods (EqualIgnoreHash).

    The pod-template-hash label does not count; absent, null and empty are the
    same for lists and maps.
    """
    if bytes(one.spec) == bytes(other.spec):
        return _canonical_meta(one.metadata) == _canonical_meta(other.metadata)
    return canonical_template(one) == canonical_template(other)


def may_be_equal(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Tell whether two templates differ at most by fields that one of them lacks.

    An API server that was upgraded may show one object with a default that it did
    not know when it showed the other. A field that both have and that differs is a
    different template for certain, as are different labels or annotations.
    """
    if _canonical_meta(one.metadata) != _canonical_meta(other.metadata):
        return False
    specs = (msgspec.json.decode(each.spec) for each in (one, other))
    return not _contradict(*map(_canonical, specs))


def _contradict(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Tell whether a field that both have differs."""
    if isinstance(one, dict) and isinstance(other, dict):
        return any(_contradict(one[key], other[key]) for key in one.keys() & other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) != len(other) or any(map(_contradict, one, other))
    return bool(one != other)


def canonical_template(template: PodTemplateSpec) -> dict[str, Any]:
    """Return the template without its hash label and without empty fields."""
    spec = _canonical(msgspec.json.decode(template.spec))
    return {"metadata": _canonical_meta(template.metadata), "spec": spec}


def _canonical_meta(metadata: ObjectMeta) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(metadata)
    labels = {
        k: v for k, v in (metadata.labels or {}).items() if k != POD_TEMPLATE_HASH
    }
    pruned: dict[str, Any] = _canonical({**fields, "labels": labels})
    return pruned


def _canonical(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        pruned = {key: _canonical(inner) for key, inner in value.items()}
        return {
            key: inner
            for key, inner in pruned.items()
            if inner is not None
            and inner != []
            and (inner != {} or key not in _EMPTY_IS_ABSENT)
        }
    if isinstance(value, list | tuple):
        return [_canonical(inner) for inner in value]
    return value


def template_hash(template: PodTemplateSpec, collision_count: int | None) -> str:
    """Return the name suffix and label value of a template's replica set.

    FNV-1a over the canonical template, in upstream's alphabet without vowels.
    The value differs from upstream's, which hashes a dump of Go structs; that
    is harmless, since a replica set is recognised by its template alone.
    """
    canonical = msgspec.json.encode(canonical_template(template), order="deterministic")
    if collision_count is not None:
        canonical += str(collision_count).encode()
    value = _FNV_OFFSET
    for byte in canonical:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(_SAFE_LETTERS[ord(digit) % 27] for digit in str(value))


# Revisions and annotations.


def revision_of(metadata: ObjectMeta) -> int:
    """Return the revision annotation, 0 if absent or malformed."""
    return _non_negative(annotations_of(metadata).get(REVISION)) or 0


def max_revision(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the highest revision."""
    return max((revision_of(each.metadata) for each in replica_sets), default=0)


def last_revision(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the second highest revision: what to roll back to."""
    revisions = sorted(
        (revision_of(each.metadata) for each in replica_sets), reverse=True
    )
    return revisions[1] if len(revisions) > 1 else 0


def desired_annotation(replica_set: ReplicaSet) -> int | None:
    """Return the deployment's size when this replica set was last scaled."""
    return _non_negative(annotations_of(replica_set.metadata).get(DESIRED_REPLICAS))


def max_annotation(replica_set: ReplicaSet) -> int | None:
    """Return the deployment's size with surge when it was last scaled."""
    return _non_negative(annotations_of(replica_set.metadata).get(MAX_REPLICAS))


def _non_negative(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def size_annotations(desired: int, maximum: int) -> dict[str, str]:
    """Return the annotations that a scaled replica set carries."""
    return {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(maximum)}


def synced_annotations(
    deployment: Deployment, current: Mapping[str, str], revision: int
) -> dict[str, str]:
    """Return what the new replica set's annotations should be.

    They inherit the deployment's (but for `NOT_COPIED`; what the deployment
    lost stays), and get `revision` if it is higher than their own, which then
    joins the revision-history, cut at 2,000 characters from its oldest end.
    """
    inherited = {
        key: value
        for key, value in annotations_of(deployment.metadata).items()
        if key not in NOT_COPIED
    }
    annotations = {**current, **inherited}
    own = current.get(REVISION)
    if own is not None and not own.isdecimal():
        return annotations  # not ours to make sense of
    if own is None or int(own) < revision:
        annotations[REVISION] = str(revision)
        if own is not None:
            annotations[REVISION_HISTORY] = _extended_history(
                current.get(REVISION_HISTORY, ""), own
            )
    return annotations


def _extended_history(history: str, revision: str) -> str:
    revisions = [each for each in history.split(",") if each] + [revision]
    while len(",".join(revisions)) > _MAX_HISTORY_LENGTH:
        revisions.pop(0)
    return ",".join(revisions)


def new_replica_set(
    deployment: Deployment, replicas: int, annotations: dict[str, str]
) -> ReplicaSet:
    """Return the replica set of the deployment's current template."""
    template = deployment.spec.template
    digest = template_hash(template, deployment.status.collision_count)
    labels = {**(template.metadata.labels or {}), POD_TEMPLATE_HASH: digest}
    selector = deployment.spec.selector or LabelSelector()
    owner = controller_reference(deployment, DEPLOYMENTS.api_version, DEPLOYMENTS.kind)
    stem = deployment.metadata.name[: _MAX_NAME_LENGTH - len(digest) - 1]
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
            selector=msgspec.structs.replace(
                selector,
                match_labels={
                    **(selector.match_labels or {}),
                    POD_TEMPLATE_HASH: digest,
                },
            ),
            template=msgspec.structs.replace(
                template,
                metadata=msgspec.structs.replace(template.metadata, labels=labels),
            ),
        ),
    )


def superfluous(rollout: Rollout) -> Sequence[ReplicaSet]:
    """Return the old replica sets beyond revisionHistoryLimit, oldest first.

    Only what has no pods, wants none, and is known not to want any counts.
    """
    limit = rollout.deployment.spec.revision_history_limit
    if limit is None or limit == 2**31 - 1:
        return ()
    cleanable = [each for each in rollout.old if not each.metadata.deletion_timestamp]
    surplus = len(cleanable) - limit
    if surplus <= 0:
        return ()
    cleanable.sort(key=lambda each: (revision_of(each.metadata), by_age(each)))
    return [
        each
        for each in cleanable[:surplus]
        if each.status.replicas == 0
        and each.spec.replicas == 0
        and each.metadata.generation <= each.status.observed_generation
    ]
