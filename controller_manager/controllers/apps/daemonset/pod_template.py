"""The pods of a daemon set, made from its template.

Upstream: CreatePodTemplate and AddOrUpdateDaemonPodTolerations.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from controller_manager.api.apps.v1 import DaemonSet
from controller_manager.api.core.scheduling import (
    NO_EXECUTE,
    NO_SCHEDULE,
    NODE_NAME_FIELD,
    SchedulingSpec,
    Toleration,
)
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.meta import annotations_of, raw_json
from controller_manager.control.controller_history import POD_REVISION_LABEL

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
"""The annotation in which the API server counts the changes of the template."""

POD_TEMPLATE_GENERATION: Final = "pod-template-generation"
"""The label of a pod with the number of changes, for older managers."""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class PodTemplates:
    """Makes the template of each node's pod.

    All fields of the spec but the affinity and the tolerations are copied as bytes, so
    none of their content can be lost.
    """

    def __init__(self, daemon_set: DaemonSet, revision_hash: str) -> None:
        template = daemon_set.spec.template
        self._metadata = replace(
            template.metadata, labels=_labels(daemon_set, revision_hash)
        )
        fields: dict[str, Raw] = msgspec.json.decode(template.spec, type=dict[str, Raw])
        spec = msgspec.json.decode(template.spec, type=SchedulingSpec)
        tolerations = with_default_tolerations(
            spec.tolerations or (), host_network=spec.host_network
        )
        self._fields = {**fields, "tolerations": raw_json(tolerations)}
        affinity = msgspec.json.decode(fields.get("affinity", b"null"))
        self._affinity: dict[str, Any] = affinity or {}

    def for_node(self, name: str) -> PodTemplateSpec:
        """Return the template of the pod of this node."""
        # The scheduler binds the pod to the node because the pod requires the node's
        # name. This replaces the node affinity of the template, which the node
        # satisfies already.
        by_name = {"key": NODE_NAME_FIELD, "operator": "In", "values": [name]}
        required = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
        to_nodes = {**(self._affinity.get("nodeAffinity") or {}), _REQUIRED: required}
        affinity = {**self._affinity, "nodeAffinity": to_nodes}
        spec = raw_json({**self._fields, "affinity": affinity})
        return PodTemplateSpec(metadata=self._metadata, spec=spec)


def template_generation(daemon_set: DaemonSet) -> str | None:
    """Return the number of changes of the template (GetTemplateGeneration)."""
    generation = annotations_of(daemon_set.metadata).get(TEMPLATE_GENERATION, "")
    return str(int(generation)) if generation.isdecimal() else None


def _labels(daemon_set: DaemonSet, revision_hash: str) -> dict[str, str]:
    labels = dict(daemon_set.spec.template.metadata.labels or {})
    generation = template_generation(daemon_set)
    if generation is not None:
        labels[POD_TEMPLATE_GENERATION] = generation
    labels[POD_REVISION_LABEL] = revision_hash
    return labels


def _tolerates_every(key: str, effect: str) -> Toleration:
    name = f"node.kubernetes.io/{key}"
    return Toleration(key=name, operator="Exists", effect=effect)


_OF_ALL_PODS: Final = (
    _tolerates_every("not-ready", NO_EXECUTE),
    _tolerates_every("unreachable", NO_EXECUTE),
    _tolerates_every("disk-pressure", NO_SCHEDULE),
    _tolerates_every("memory-pressure", NO_SCHEDULE),
    _tolerates_every("pid-pressure", NO_SCHEDULE),
    _tolerates_every("unschedulable", NO_SCHEDULE),
)
"""A daemon pod starts and stays on a node that has problems."""

_ON_HOST_NETWORK: Final = _tolerates_every("network-unavailable", NO_SCHEDULE)


def with_default_tolerations(
    tolerations: Iterable[Toleration], *, host_network: bool
) -> tuple[Toleration, ...]:
    """Return the tolerations with those of daemon pods, which replace equal ones."""
    # Also one that is limited in time (tolerationSeconds).
    defaults = (*_OF_ALL_PODS, _ON_HOST_NETWORK) if host_network else _OF_ALL_PODS
    by_identity = {_identity(each): each for each in defaults}
    merged = [by_identity.get(_identity(each), each) for each in tolerations]
    return (*merged, *(each for each in defaults if each not in merged))


def _identity(toleration: Toleration) -> tuple[str, str, str, str]:
    return (toleration.key, toleration.operator, toleration.value, toleration.effect)
