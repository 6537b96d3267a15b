"""Changes of pods: fields that may change, gates, ephemeral containers, resources.

Upstream: pkg/registry/core/pod/strategy.go, and pkg/apis/core/validation.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from controller_manager.api.core.resources import CPU, MEMORY
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import ZERO, parse_quantity
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    shown,
)
from controller_manager.devcluster.validation.pods import POD_SPEC
from controller_manager.devcluster.validation.text import table

# The metadata of a pod that a subresource writes.

_KEPT: Final = ("annotations", "finalizers", "labels", "ownerReferences")


def with_old_metadata(old: JSON, new: JSON) -> JSON:
    """Return the old pod with the metadata of an update that changes none of its own.

    Upstream: ResetObjectMetaForStatus of apimachinery.
    """
    kept = {name: old["metadata"][name] for name in _KEPT if name in old["metadata"]}
    rest = {name: each for name, each in new["metadata"].items() if name not in _KEPT}
    return {**old, "metadata": {**rest, **kept}}


# The quality of service of pods (pkg/apis/core/helper/qos/qos.go).

_BURSTABLE: Final = "Burstable"
_COUNTED: Final = (CPU, MEMORY)


def qos_class(spec: JSON) -> str:
    """Return the quality-of-service class of a pod (ComputePodQOS).

    Resources at the level of the pod have priority over those of its containers.
    Amounts are compared, not texts: ``1000m`` equals ``1``. Only cpu and memory count.
    """
    if isinstance(spec.get("resources"), dict):
        return _class_of(spec["resources"])
    containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
    classes = {_class_of(each.get("resources") or {}) for each in containers}
    return classes.pop() if len(classes) == 1 else _BURSTABLE


def _class_of(resources: JSON) -> str:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    return _class(*(each.get(name) for each in (requests, limits) for name in _COUNTED))


@lru_cache(1024)
def _class(*stated: str | float | None) -> str:
    """Return the class of two requests and two limits: most pods state equal ones."""
    amounts = [ZERO if each is None else parse_quantity(str(each)) for each in stated]
    requested, limited = amounts[: len(_COUNTED)], amounts[len(_COUNTED) :]
    if not any(each > ZERO for each in amounts):
        return "BestEffort"
    is_full = all(each > ZERO for each in limited) and requested == limited
    return "Guaranteed" if is_full else _BURSTABLE


# The nodes that a pod with scheduling gates allows; an update may only narrow them.

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"


def validate_narrowing(old: JSON, new: JSON) -> Iterator[Cause]:
    """Yield the changes of a gated pod's spec that allow other nodes than before."""
    before, after = (each.get("nodeSelector") or {} for each in (old, new))
    if not before.items() <= after.items():
        detail = (
            "only additions to spec.nodeSelector are allowed (no mutations or "
            "deletions)"
        )
        yield invalid("spec.nodeSelector", shown(after), detail)
    terms, changed = _terms(old), _terms(new)
    if terms and len(terms) != len(changed):
        detail = (
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        )
        found = [_in_go(each) for each in changed] or None
        yield invalid(_TERMS, shown(found), detail)
        return
    for number, term in enumerate(terms):
        if not _only_adds(term, changed[number]):
            detail = "only additions are allowed (no mutations or deletions)"
            yield invalid(f"{_TERMS}[{number}]", shown(_in_go(changed[number])), detail)


def without_node_choice(spec: JSON) -> JSON:
    """Return a spec without node selector and node affinity."""
    rest = {key: value for key, value in spec.items() if key != "nodeSelector"}
    affinity = dict(rest.pop("affinity", None) or {})
    affinity.pop("nodeAffinity", None)
    return {**rest, "affinity": affinity} if affinity else rest


def _terms(spec: JSON) -> list[JSON]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return list((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ())


def _only_adds(old: JSON, new: JSON) -> bool:
    """Tell whether a term has the old requirements, and new ones only after them.

    A term without requirements matches no node, so it stays as it is.
    """
    fields = ("matchExpressions", "matchFields")
    lists = [(old.get(name) or [], new.get(name) or []) for name in fields]
    if not any(before for before, _ in lists):
        return not any(after for _, after in lists)
    return all(after[: len(before)] == before for before, after in lists)


def _in_go(term: JSON) -> JSON:
    """Return a term with the names of its fields in Go, as upstream shows it."""

    def requirements(name: str) -> list[JSON] | None:
        return [
            {
                "Key": each["key"],
                "Operator": each["operator"],
                "Values": each.get("values"),
            }
            for each in term.get(name) or ()
        ] or None

    return {
        "MatchExpressions": requirements("matchExpressions"),
        "MatchFields": requirements("matchFields"),
    }


# Validation of the changes of a pod (core/validation).

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
    if before != after:
        yield forbidden_field(path[:-1], f"{_FORBIDDEN}{_differences(before, after)}")


def _differences(before: JSON, after: JSON) -> str:
    """Return the fields that differ, a line for each value."""
    lines = (
        f"\n-  {shown(name)}: {shown(before.get(name))},"
        f"\n+  {shown(name)}: {shown(after.get(name))},"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )
    return "".join(lines) + "\n"


def _drops_toleration(spec: JSON, old: JSON) -> bool:
    """Tell whether an update does not only add tolerations or change their times."""
    kept = {_untimed(each) for each in spec.get("tolerations", [])}
    return not kept.issuperset(map(_untimed, old.get("tolerations", [])))


def _gates(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
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
    return [
        each["name"]
        for each in spec.get("initContainers", [])
        if each.get("restartPolicy") == "Always"
    ]


POD_UPDATE: Final = table("""
    spec change:
      self: forbidden at tolerations if drops_toleration
        "existing toleration can not be modified except its tolerationSeconds"
      hook spec
    """)
POD_STATUS_UPDATE: Final = table("hook status")


# The subresource ephemeralcontainers, which kubectl debug writes.

_FIELD: Final = "ephemeralContainers"
_NEVER_SET: Final = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)
_NEVER: Final = "cannot be set for an Ephemeral Container"


def replace_ephemeral_containers(old: JSON, new: JSON) -> JSON:
    """Return the old pod with the ephemeral containers of the new one."""
    spec = {name: each for name, each in old["spec"].items() if name != _FIELD}
    if containers := new["spec"].get(_FIELD):
        spec[_FIELD] = containers
    return {**with_old_metadata(old, new), "spec": spec}


def validate_ephemeral_containers(old: JSON, new: JSON) -> Sequence[Cause]:
    """Check the ephemeral containers; those that exist stay as they are."""
    spec = new["spec"]
    given = spec.get(_FIELD) or ()
    return [*_validate(spec, given), *_changed(old["spec"].get(_FIELD) or (), given)]


def _validate(spec: JSON, given: Sequence[JSON]) -> Iterator[Cause]:
    others = [
        each["name"]
        for name in ("containers", "initContainers")
        for each in spec.get(name) or ()
    ]
    names = list(others)
    for number, container in enumerate(given):
        field = f"spec.{_FIELD}[{number}]"
        yield from _as_container(spec, container, field)
        if container.get("name") in names:
            yield duplicate(f"{field}.name", shown(container["name"]))
        names.append(container.get("name", ""))
        target = container.get("targetContainerName")
        if target and target not in others:
            where = f"{field}.targetContainerName"
            yield Cause("FieldValueNotFound", where, f"Not found: {shown(target)}")
        for name in _NEVER_SET:
            if container.get(name):
                yield forbidden_field(f"{field}.{name}", _NEVER)
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            for name in ("subPath", "subPathExpr"):
                if mount.get(name):
                    where = f"{field}.volumeMounts[{index}].{name}"
                    yield forbidden_field(where, _NEVER)


def _as_container(spec: JSON, container: JSON, field: str) -> Iterator[Cause]:
    """Yield the errors that any container of the pod can have."""
    plain = {name: each for name, each in container.items() if name not in _NEVER_SET}
    alone = {**spec, "containers": [{**plain, "resources": {}}], "initContainers": []}
    prefix = "spec.containers[0]"
    for cause in POD_SPEC.errors(alone, {"spec": alone}, path="spec."):
        if cause.field.startswith(prefix):
            where = field + cause.field.removeprefix(prefix)
            yield Cause(cause.reason, where, cause.detail)


def _changed(old: Sequence[JSON], new: Sequence[JSON]) -> Iterator[Cause]:
    named = {each.get("name"): each for each in new}
    for container in old:
        which = f"existing ephemeral containers {shown(container['name'])}"
        found = named.get(container["name"])
        if found is None:
            yield forbidden_field(f"spec.{_FIELD}", f"{which} may not be removed\n")
        elif found != container:
            detail = f"{which} may not be changed{_differences(container, found)}"
            yield forbidden_field(f"spec.{_FIELD}", detail)


# The subresource resize: the resources of containers change in place.

_LISTS: Final = ("containers", "initContainers")
_CHANGED: Final = ("resources", "resizePolicy")
_AMOUNTS: Final = ("requests", "limits")
_ONLY: Final = "only cpu and memory resources are mutable"


def replace_resources(old: JSON, new: JSON) -> JSON:
    """Return the old pod with the resources and resize policies of the new one.

    A pod with other containers stays as it is, for validation to refuse it.
    """
    if any(_names(old, name) != _names(new, name) for name in _LISTS):
        return new
    spec = dict(old["spec"])
    for name in _LISTS:
        if name in spec:
            pairs = zip(spec[name], new["spec"][name], strict=True)
            spec[name] = [_resized(*each) for each in pairs]
    return {**with_old_metadata(old, new), "spec": spec}


def _names(pod: JSON, name: str) -> list[str]:
    return [each["name"] for each in pod["spec"].get(name) or ()]


def _resized(old: JSON, new: JSON) -> JSON:
    rest = {name: each for name, each in old.items() if name not in _CHANGED}
    return {**rest, **{name: new[name] for name in _CHANGED if name in new}}


def validate_resize(old: JSON, new: JSON) -> Sequence[Cause]:
    """Check that only amounts of cpu and memory change, and none is removed."""
    if problems := [*_other_containers(old, new)]:
        return problems
    causes = []
    if old["status"].get("qosClass") != qos_class(new["spec"]):
        detail = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid("spec", shown(new["status"].get("qosClass")), detail))
    for name in ("initContainers", "containers"):
        lists = (each["spec"].get(name) or () for each in (old, new))
        for number, (before, after) in enumerate(zip(*lists, strict=True)):
            where = f"spec.{name}[{number}]"
            causes += _removed(before, after, f"{where}.resources")
            if _without_amounts(before) == _without_amounts(after):
                continue
            if name == "containers":
                causes.append(forbidden_field("spec", _ONLY))
                continue
            detail = _ONLY.replace("are", "for init or sidecar containers are")
            causes.append(forbidden_field(where, detail))
    return causes


def _other_containers(old: JSON, new: JSON) -> Iterator[Cause]:
    """Yield the containers that are added, removed, renamed or in another order."""
    for name in _LISTS:
        before, after = _names(old, name), _names(new, name)
        if len(before) != len(after):
            detail = f"{name} may not be added or removed on resize"
            yield forbidden_field(f"spec.{name}", detail)
            continue
        for number, pair in enumerate(zip(before, after, strict=True)):
            if pair[0] != pair[1]:
                detail = f"{name} may not be renamed or reordered on resize"
                yield forbidden_field(f"spec.{name}[{number}].name", detail)


def _removed(old: JSON, new: JSON, field: str) -> Iterator[Cause]:
    for name in _AMOUNTS:
        before = (old.get("resources") or {}).get(name) or {}
        after = (new.get("resources") or {}).get(name) or {}
        if before.keys() - after.keys():
            kind = f"resource {name} cannot be removed"
            yield forbidden_field(f"{field}.{name}", kind)


def _without_amounts(container: JSON) -> JSON:
    resources = container.get("resources") or {}
    rest = {
        name: {
            resource: amount
            for resource, amount in (resources.get(name) or {}).items()
            if resource not in (CPU, MEMORY)
        }
        for name in _AMOUNTS
    }
    return {**container, "resources": {**resources, **rest}}
