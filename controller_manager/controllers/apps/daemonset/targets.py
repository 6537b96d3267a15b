"""The node that a daemon pod is for (GetTargetNodeName)."""

from controller_manager.api.core.scheduling import NODE_NAME_FIELD
from controller_manager.api.core.v1 import Pod


def target_of(pod: Pod) -> str:
    """Return the name of the node that a pod runs on, or is to run on.

    A pod without a node names the node in its required node affinity, by the field
    metadata.name. Empty for a pod that names none, or several.
    """
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity is not None else None
    if node_affinity is None or node_affinity.required is None:
        return ""
    for term in node_affinity.required.node_selector_terms or ():
        for field in term.match_fields or ():
            if field.key == NODE_NAME_FIELD and field.operator == "In":
                values = field.values or ()
                return values[0] if len(values) == 1 else ""
    return ""
