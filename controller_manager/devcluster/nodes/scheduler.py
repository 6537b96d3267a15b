"""The scheduler: which nodes fit a pod."""

from typing import Any

JSON = dict[str, Any]


def fits(pod: JSON, node: JSON) -> bool:
    """Tell whether a node, given by its spec, fits a new pod.

    It fits unless it is cordoned, or has a taint that the pod does not tolerate.
    """
    tolerations = pod["spec"].get("tolerations", [])
    return not node.get("unschedulable") and all(
        any(_tolerates(each, taint) for each in tolerations)
        for taint in node.get("taints", [])
        if taint["effect"] != "PreferNoSchedule"
    )


def _tolerates(toleration: JSON, taint: JSON) -> bool:
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in {None, "", taint["key"]}
    return (toleration.get("key"), toleration.get("value", "")) == (
        taint["key"],
        taint.get("value", ""),
    )
