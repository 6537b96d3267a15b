"""core/v1: the fields of pods and nodes that say which pod may run on which node.

All fields of these types are here, except in `SchedulingSpec`.
"""

from typing import Final

from msgspec import field

from controller_manager.api.meta import APIStruct

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


class Toleration(APIStruct, frozen=True):
    """The taints that a pod tolerates."""

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


class Affinity(APIStruct, frozen=True):
    """The affinity of a pod to nodes; that to other pods is left out."""

    node_affinity: NodeAffinity | None = None


class SchedulingSpec(APIStruct, frozen=True):
    """The fields of a pod's spec that decide on which nodes it may run."""

    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    host_network: bool = False
