"""Validation of the changes of a pod (core/validation)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, forbidden_field, shown
from controller_manager.devcluster.validation.text import table

from .gated_pods import validate_narrowing, without_node_choice

_FORBIDDEN: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_STATUS_LISTS: Final = ("initContainerStatuses", "containerStatuses")


def _spec(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that only the few mutable fields of the spec change."""
    yield from _gates(spec, path, old)
    before, after = _without_mutable_fields(old), _without_mutable_fields(spec)
    if old.get("schedulingGates"):
        yield from validate_narrowing(old, spec)
        before, after = without_node_choice(before), without_node_choice(after)
    if before == after:
        return
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
    yield forbidden_field(path[:-1], f"{_FORBIDDEN}{lines}\n")


def _drops_toleration(spec: JSON, old: JSON) -> bool:
    """Tell whether an update does not only add tolerations or change their times."""
    kept = {_untimed(each) for each in spec.get("tolerations", [])}
    return not kept.issuperset(map(_untimed, old.get("tolerations", [])))


def _gates(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that an update adds no scheduling gates."""
    known = {each["name"] for each in old.get("schedulingGates", ())}
    for number, each in enumerate(spec.get("schedulingGates", ())):
        if (name := each["name"]) not in known:
            where = f"{path}schedulingGates[{number}].name"
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield forbidden_field(where, detail)


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


def _status(pod: JSON, _: str, old: JSON) -> Iterator[Cause]:
    """Check that a container that has ended for good does not start again."""
    policy = pod["spec"].get("restartPolicy", "Always")
    for name in _STATUS_LISTS if policy != "Always" else ():
        yield from _restarted(old, pod, name, fails_too=policy == "Never")


def _restarted(old: JSON, new: JSON, name: str, *, fails_too: bool) -> Iterator[Cause]:
    """Yield a cause for each ended container that has another state now.

    `fails_too` says that a container that failed does not start again either.
    """
    states = {
        each["name"]: each.get("state", {})
        for each in new.get("status", {}).get(name, [])
    }
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
        yield forbidden_field(field, detail)


def _restartable(spec: JSON) -> list[str]:
    """Return the names of the init containers that keep running."""
    return [
        each["name"]
        for each in spec.get("initContainers", [])
        if each.get("restartPolicy") == "Always"
    ]


POD_UPDATE: Final = table(
    """
    spec change:
      self: forbidden at tolerations if drops_toleration
        "existing toleration can not be modified except its tolerationSeconds"
      hook spec
    """,
    _drops_toleration,
    _spec,
)
POD_STATUS_UPDATE: Final = table("hook status", _status)
