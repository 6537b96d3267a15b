"""Validation of the changes of a pod (core/validation)."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, forbidden_field, shown

from .gated_pods import validate_narrowing, without_node_choice

_FORBIDDEN: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_STATUS_LISTS: Final = ("initContainerStatuses", "containerStatuses")


def validate_pod_update(old: JSON, new: JSON) -> Sequence[Cause]:
    """Check that only the few mutable fields of the spec change."""
    causes = _tolerations(old["spec"], new["spec"])
    causes += _gates(old["spec"], new["spec"])
    before = _without_mutable_fields(old["spec"])
    after = _without_mutable_fields(new["spec"])
    if old["spec"].get("schedulingGates"):
        causes += validate_narrowing(old["spec"], new["spec"])
        before, after = without_node_choice(before), without_node_choice(after)
    if before == after:
        return causes
    changed = [
        name
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    lines = "".join(
        f'\n-  "{name}": {shown(before.get(name))},\n+  "{name}": '
        f"{shown(after.get(name))},"
        for name in changed
    )
    return [*causes, forbidden_field("spec", f"{_FORBIDDEN}{lines}\n")]


def _tolerations(before: JSON, after: JSON) -> list[Cause]:
    """Check that an update only adds tolerations or changes their tolerationSeconds."""
    kept = {_untimed(each) for each in after.get("tolerations", [])}
    if kept.issuperset(map(_untimed, before.get("tolerations", []))):
        return []
    detail = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden_field("spec.tolerations", detail)]


def _gates(before: JSON, after: JSON) -> list[Cause]:
    """Check that an update adds no scheduling gates."""
    known = {each["name"] for each in before.get("schedulingGates", ())}
    return [
        forbidden_field(
            f"spec.schedulingGates[{number}].name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for number, each in enumerate(after.get("schedulingGates", ()))
        if (name := each["name"]) not in known
    ]


def _untimed(toleration: JSON) -> frozenset[tuple[str, str]]:
    """Return the immutable fields of a toleration."""
    return frozenset(each for each in toleration.items() if "Seconds" not in each[0])


def _without_mutable_fields(spec: JSON) -> JSON:
    rest = {
        key: value
        for key, value in spec.items()
        if key not in ("activeDeadlineSeconds", "schedulingGates", "tolerations")
    }
    for name in ("containers", "initContainers"):
        if name in rest:
            rest[name] = [{**each, "image": ""} for each in rest[name]]
    return rest


def validate_pod_status_update(old: JSON, new: JSON) -> list[Cause]:
    """Check that a container that has ended for good does not start again."""
    policy = new["spec"].get("restartPolicy", "Always")
    if policy == "Always":
        return []
    return [
        cause
        for name in _STATUS_LISTS
        for cause in _restarted(old, new, name, fails_too=policy == "Never")
    ]


def _restarted(old: JSON, new: JSON, name: str, *, fails_too: bool) -> list[Cause]:
    """Return a cause for each ended container that has another state now.

    `fails_too` says that a container that failed does not start again either.
    """
    states = {
        each["name"]: each.get("state", {})
        for each in new.get("status", {}).get(name, [])
    }
    causes = []
    sidecars = _restartable(new["spec"]) if name == "initContainerStatuses" else ()
    for number, status in enumerate(old.get("status", {}).get(name, [])):
        ended = status.get("state", {}).get("terminated")
        if ended is None or status["name"] not in states or status["name"] in sidecars:
            continue
        may_restart = ended.get("exitCode", 0) != 0 and not fails_too
        if may_restart or "terminated" in states[status["name"]]:
            continue
        field = f"status.{name}[{number}].state"
        detail = "may not be transitioned to non-terminated state"
        causes.append(forbidden_field(field, detail))
    return causes


def _restartable(spec: JSON) -> list[str]:
    """Return the names of the init containers that keep running."""
    return [
        each["name"]
        for each in spec.get("initContainers", [])
        if each.get("restartPolicy") == "Always"
    ]
