"""core/v1: the fields of pods and nodes that say which pod may run on which node.

All fields of these types are here, except in `SchedulingSpec`.
"""

from typing import Final

from msgspec import field

from controller_manager.api.meta import APIStruct
from controller_manager.api.selectors import LabelSelector

NODE_NAME_FIELD: Final = "metadata.name"
"""The only field of a node that a node selector may name."""

NO_EXECUTE: Final = "NoExecute"
"""The effect of a taint that also ends pods that run already."""

NO_SCHEDULE: Final = "NoSchedule"
"""The effect of a taint that keeps new pods away."""


class Taint(APIStruct, frozen=True):
    """A mark of a node that keeps away the pods that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Toleration(APIStruct, frozen=True):
    """A toleration: the taints that a pod tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorRequirement(APIStruct, frozen=True):
    """One condition on a label or a field of a node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(APIStruct, frozen=True):
    """Conditions that a node must all meet."""

    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None
    match_fields: tuple[NodeSelectorRequirement, ...] | None = None


class NodeSelector(APIStruct, frozen=True):
    """Terms, of which a node must meet one."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class NodeAffinity(APIStruct, frozen=True):
    """The nodes that a pod requires; preferences are left out."""

    required: NodeSelector | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(APIStruct, frozen=True):
    """The namespaces that a term of an affinity between pods looks at."""

    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(APIStruct, frozen=True):
    """A preferred term of an affinity between pods."""

    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(APIStruct, frozen=True):
    """The affinity, or anti-affinity, of a pod to other pods."""

    required: tuple[PodAffinityTerm, ...] | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(APIStruct, frozen=True):
    """The affinity of a pod to nodes and to other pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


def crosses_namespaces(affinity: Affinity | None) -> bool:
    """Tell whether an affinity looks at pods of other namespaces.

    Upstream: usesCrossNamespacePodAffinity of pkg/quota/v1/evaluator/core/pods.go.
    """
    if affinity is None:
        return False
    return any(
        term.namespaces or term.namespace_selector is not None
        for each in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if each is not None
        for term in (
            *(each.required or ()),
            *(weighted.pod_affinity_term for weighted in each.preferred or ()),
        )
    )


class SchedulingSpec(APIStruct, frozen=True):
    """The fields of a pod's spec that decide on which nodes it may run."""

    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    host_network: bool = False
