"""What the API server does not let in (pkg/apis/*/validation).

Every function returns the causes it finds, in the order in which upstream
reports them.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from controller_manager.api.selectors import (
    LabelSelector,
    SelectorError,
    compile_selector,
)
from controller_manager.devcluster.quantity import parse_quantity
from controller_manager.devcluster.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
)

JSON = dict[str, Any]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
    "characters, '-' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters "
    "or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  "
    "or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SERVICE_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character "
    "(e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, "
    "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
    "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NAME_PART_TEXT: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
    "'123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

_PATH_NAMED: Final = frozenset(
    ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
)
"""Kinds whose names may be anything that fits into a path."""

_MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253
_MAX_PORT: Final = 65535

_IMMUTABLE: Final = "field is immutable"
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def shown(value: Any) -> str:
    """Return a value as messages show it."""
    return msgspec.json.encode(value).decode()


# Metadata


def validate_metadata(kind: str, metadata: JSON) -> list[Cause]:
    """Check the metadata of an object of `kind` that is to be created."""
    causes: list[Cause] = []
    name, generated = metadata.get("name", ""), metadata.get("generateName", "")
    if not name and not generated:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif name:
        causes += _name(kind, name)
    causes += _labels(metadata.get("labels", {}), "metadata.labels")
    causes += _annotations(metadata.get("annotations", {}), "metadata.annotations")
    return causes + _owners(metadata.get("ownerReferences", []))


def _path_segment(name: str) -> list[Cause]:
    if name in (".", ".."):
        return [invalid("metadata.name", shown(name), f"may not be '{name}'")]
    return [
        invalid("metadata.name", shown(name), f"may not contain '{each}'")
        for each in "/%"
        if each in name
    ]


def _name(kind: str, name: str) -> list[Cause]:
    field = "metadata.name"
    if kind in _PATH_NAMED:
        return _path_segment(name)
    match kind:
        case "Namespace":
            pattern, longest, text = _LABEL, _MAX_LABEL, _LABEL_TEXT
        case "Service":
            pattern, longest, text = _SERVICE, _MAX_LABEL, _SERVICE_TEXT
        case _:
            pattern, longest, text = _SUBDOMAIN, _MAX_SUBDOMAIN, _SUBDOMAIN_TEXT
    causes = []
    if len(name) > longest:
        detail = f"must be no more than {longest} characters"
        causes.append(invalid(field, shown(name), detail))
    if not pattern.fullmatch(name):
        causes.append(invalid(field, shown(name), text))
    return causes


def _labels(labels: JSON, field: str) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        causes += _qualified_name(key, field)
        if len(value) > _MAX_LABEL:
            detail = f"must be no more than {_MAX_LABEL} bytes"
            causes.append(invalid(field, shown(value), detail))
        elif value and not _QUALIFIED.fullmatch(value):
            causes.append(invalid(field, shown(value), _LABEL_VALUE_TEXT))
    return causes


def _annotations(annotations: JSON, field: str) -> list[Cause]:
    causes = [
        cause for key in annotations for cause in _qualified_name(key.lower(), field)
    ]
    size = sum(len(key) + len(value) for key, value in annotations.items())
    if size > 256 * 1024:
        causes.append(
            Cause(
                "FieldValueTooLong",
                field,
                "Too long: may not be more than 262144 bytes",
            )
        )
    return causes


def _qualified_name(key: str, field: str) -> list[Cause]:
    prefix, slash, name = key.rpartition("/")
    causes = []
    if slash and not _SUBDOMAIN.fullmatch(prefix):
        causes.append(invalid(field, shown(key), f"prefix part {_SUBDOMAIN_TEXT}"))
    if not _QUALIFIED.fullmatch(name):
        causes.append(invalid(field, shown(key), _NAME_PART_TEXT))
    elif len(name) > _MAX_LABEL:
        detail = f"name part must be no more than {_MAX_LABEL} bytes"
        causes.append(invalid(field, shown(key), detail))
    return causes


def _owners(references: list[JSON]) -> list[Cause]:
    field = "metadata.ownerReferences"
    causes = []
    controllers: list[str] = []
    for reference in references:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(name):
                where = f"{field}.{name}"
                value = shown(reference.get(name, ""))
                causes.append(invalid(where, value, "must not be empty"))
        if reference.get("controller"):
            controllers.append(f"{reference.get('kind')}/{reference.get('name')}")
    if len(controllers) > 1:
        detail = (
            'Only one reference can have Controller set to true. Found "true" in '
            f"references for {controllers[0]} and {controllers[1]}"
        )
        causes.append(invalid(field, shown(references), detail))
    return causes


def validate_metadata_update(old: JSON, new: JSON) -> list[Cause]:
    """Check what an update does to metadata."""
    causes = []
    if (old.get("finalizers") or new.get("finalizers")) and old.get(
        "deletionTimestamp"
    ):
        added = [
            each
            for each in new.get("finalizers", [])
            if each not in old.get("finalizers", [])
        ]
        if added:
            listed = ", ".join(f'"{each}"' for each in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            causes.append(forbidden_field("metadata.finalizers", detail))
    for name in ("name", "namespace", "uid"):
        if new.get(name, "") != old.get(name, ""):
            where = f"metadata.{name}"
            causes.append(invalid(where, shown(new.get(name, "")), _IMMUTABLE))
    causes += _labels(new.get("labels", {}), "metadata.labels")
    causes += _annotations(new.get("annotations", {}), "metadata.annotations")
    return causes + _owners(new.get("ownerReferences", []))


# Kinds


def validate(kind: str, obj: JSON) -> list[Cause]:
    """Check an object that is to be stored, metadata aside."""
    function = _VALIDATORS.get(kind)
    return function(obj) if function is not None else []


def validate_update(kind: str, old: JSON, new: JSON) -> list[Cause]:
    """Check what an update changes, beyond the result being valid."""
    function = _UPDATE_VALIDATORS.get(kind)
    return function(old, new) if function is not None else []


def validate_status(kind: str, obj: JSON) -> list[Cause]:
    """Check a status that is to be stored."""
    status = obj.get("status", {})
    match kind:
        case "Deployment":
            names = (
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
            )
            bounded = ("updatedReplicas", "readyReplicas", "availableReplicas")
        case "ReplicaSet" | "ReplicationController":
            names = (
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
                "terminatingReplicas",
            )
            bounded = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        case _:
            return []
    causes = [
        invalid(f"status.{name}", shown(status[name]), _NOT_NEGATIVE)
        for name in names
        if status.get(name, 0) < 0
    ]
    for name in bounded:
        if status.get(name, 0) > status.get("replicas", 0):
            value = shown(status.get(name, 0))
            detail = "cannot be greater than status.replicas"
            causes.append(invalid(f"status.{name}", value, detail))
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        value = shown(status.get("availableReplicas", 0))
        detail = "cannot be greater than readyReplicas"
        causes.append(invalid("status.availableReplicas", value, detail))
    return causes


def validate_scale(replicas: int) -> list[Cause]:
    """Check the size that a scale subresource asks for."""
    if replicas < 0:
        return [invalid("spec.replicas", shown(replicas), _NOT_NEGATIVE)]
    return []


def _not_negative(spec: JSON, *names: str) -> list[Cause]:
    return [
        invalid(f"spec.{name}", shown(spec[name]), _NOT_NEGATIVE)
        for name in names
        if spec.get(name, 0) < 0
    ]


def _workload(obj: JSON) -> list[Cause]:
    spec = obj["spec"]
    causes = _not_negative(spec, "replicas", "minReadySeconds")
    selector = spec.get("selector")
    if selector is None:
        causes.append(required("spec.selector"))
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        why = "empty selector is invalid for deployment"  # for replica sets, too
        causes.append(invalid("spec.selector", shown(selector), why))
    causes += _selector(selector, "spec.selector")
    return causes + _template_of(spec, selector)


def _selector(selector: JSON | None, field: str) -> list[Cause]:
    try:
        compile_selector(_typed(selector))
    except SelectorError as error:
        return [invalid(field, shown(selector), str(error))]
    return []


def _typed(selector: JSON | None) -> LabelSelector:
    return msgspec.convert(selector or {}, LabelSelector)


def _template_of(spec: JSON, selector: JSON | None) -> list[Cause]:
    template = spec["template"]
    labels = template["metadata"].get("labels", {})
    where = "spec.template"
    causes = []
    try:
        matches = selector is not None and compile_selector(_typed(selector)).matches(
            labels
        )
    except SelectorError:
        matches = True  # reported already
    if not matches:
        causes.append(
            invalid(
                f"{where}.metadata.labels",
                shown(labels) if labels else "null",
                "`selector` does not match template `labels`",
            )
        )
    causes += _labels(labels, f"{where}.labels")
    causes += _pod_spec(template["spec"], f"{where}.spec")
    policy = template["spec"].get("restartPolicy", "Always")
    if policy != "Always":
        field = f"{where}.spec.restartPolicy"
        causes.append(not_supported(field, shown(policy), ("Always",)))
    return causes


def _deployment(obj: JSON) -> list[Cause]:
    spec = obj["spec"]
    causes = _workload(obj)
    causes += _deployment_strategy(spec["strategy"])
    causes += _not_negative(spec, "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        field = "spec.progressDeadlineSeconds"
        detail = "must be greater than minReadySeconds"
        causes.append(invalid(field, shown(deadline), detail))
    return causes


def _deployment_strategy(strategy: JSON) -> list[Cause]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    field = "spec.strategy"
    match kind:
        case "Recreate":
            if rolling is None:
                return []
            detail = "may not be specified when strategy `type` is 'Recreate'"
            return [forbidden_field(f"{field}.rollingUpdate", detail)]
        case "RollingUpdate":
            return _rolling_update(rolling or {}, f"{field}.rollingUpdate")
        case _:
            value = {"Type": kind, "RollingUpdate": rolling}
            return [not_supported(field, shown(value), ("Recreate", "RollingUpdate"))]


def _rolling_update(rolling: JSON, field: str) -> list[Cause]:
    causes = []
    for name in ("maxUnavailable", "maxSurge"):
        causes += _int_or_percent(rolling.get(name, 0), f"{field}.{name}")
    unavailable = rolling.get("maxUnavailable", 0)
    if unavailable in (0, "0%") and rolling.get("maxSurge", 0) in (0, "0%"):
        detail = "may not be 0 when `maxSurge` is 0"
        causes.append(invalid(f"{field}.maxUnavailable", shown(unavailable), detail))
    if _percent(unavailable) > 100:
        detail = "must not be greater than 100%"
        causes.append(invalid(f"{field}.maxUnavailable", shown(unavailable), detail))
    return causes


def _int_or_percent(value: Any, field: str) -> list[Cause]:
    if isinstance(value, int):
        return [invalid(field, shown(value), _NOT_NEGATIVE)] if value < 0 else []
    if not re.fullmatch(r"[0-9]+%", str(value)):
        detail = (
            "a valid percent string must be a numeric string followed by an ending "
            "'%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [invalid(field, shown(value), detail)]
    return []


def _percent(value: Any) -> int:
    if isinstance(value, str) and value.removesuffix("%").isdecimal():
        return int(value.removesuffix("%"))
    return 0


def _pod_spec(spec: JSON, field: str) -> list[Cause]:
    containers = spec.get("containers", [])
    causes = []
    if not containers:
        causes.append(required(f"{field}.containers"))
    seen: set[str] = set()
    for name in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(name, [])):
            where = f"{field}.{name}[{number}]"
            causes += _container(container, where, seen)
    policies = ("Always", "OnFailure", "Never")
    if spec.get("restartPolicy") not in policies:
        value = shown(spec.get("restartPolicy"))
        causes.append(not_supported(f"{field}.restartPolicy", value, policies))
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        value = shown(spec["terminationGracePeriodSeconds"])
        where = f"{field}.terminationGracePeriodSeconds"
        causes.append(invalid(where, value, _NOT_NEGATIVE))
    return causes


def _container(container: JSON, field: str, seen: set[str]) -> list[Cause]:
    causes = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{field}.name"))
    elif not _LABEL.fullmatch(name) or len(name) > _MAX_LABEL:
        causes.append(invalid(f"{field}.name", shown(name), _LABEL_TEXT))
    elif name in seen:
        text = f'Duplicate value: "{name}"'
        causes.append(Cause("FieldValueDuplicate", f"{field}.name", text))
    seen.add(name)
    if not container.get("image"):
        causes.append(required(f"{field}.image"))
    for number, port in enumerate(container.get("ports", [])):
        where = f"{field}.ports[{number}].containerPort"
        value = port.get("containerPort")
        if value is None:
            causes.append(required(where))
        elif not 0 < value <= _MAX_PORT:
            detail = f"must be between 1 and {_MAX_PORT}, inclusive"
            causes.append(invalid(where, shown(value), detail))
    policies = ("Always", "IfNotPresent", "Never")
    if container.get("imagePullPolicy") not in policies:
        value = shown(container.get("imagePullPolicy"))
        causes.append(not_supported(f"{field}.imagePullPolicy", value, policies))
    for group in ("limits", "requests"):
        for resource, amount in container["resources"].get(group, {}).items():
            causes += _quantity(amount, f"{field}.resources.{group}[{resource}]")
    return causes


def _quantity(text: str, field: str) -> list[Cause]:
    try:
        amount = parse_quantity(text)
    except ValueError as error:
        return [invalid(field, shown(text), str(error))]
    return [invalid(field, shown(text), _NOT_NEGATIVE)] if amount < 0 else []


def _pod(obj: JSON) -> list[Cause]:
    return _pod_spec(obj["spec"], "spec")


def _event(obj: JSON) -> list[Cause]:
    namespace = obj["metadata"].get("namespace", "")
    involved = obj.get("involvedObject", {}).get("namespace", "")
    if involved == namespace or (not involved and namespace == "default"):
        return []
    detail = "does not match event.namespace"
    return [invalid("involvedObject.namespace", shown(involved), detail)]


def _quota(obj: JSON) -> list[Cause]:
    return [
        cause
        for name, amount in obj["spec"].get("hard", {}).items()
        for cause in _quantity(amount, f"spec.hard[{name}]")
    ]


def _service(obj: JSON) -> list[Cause]:
    spec = obj["spec"]
    needs_ports = spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None"
    if needs_ports and not spec.get("ports"):
        return [required("spec.ports")]
    return []


def _definition(obj: JSON) -> list[Cause]:
    spec = obj["spec"]
    causes = [
        required(f"spec.{name}") for name in ("group", "scope") if not spec.get(name)
    ]
    names = spec.get("names", {})
    causes += [
        required(f"spec.names.{name}")
        for name in ("plural", "kind")
        if not names.get(name)
    ]
    versions = spec.get("versions", [])
    if not any(each.get("storage") for each in versions):
        why = "must have exactly one version marked as storage version"
        causes.append(invalid("spec.versions", shown(versions), why))
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if obj["metadata"].get("name") != wanted:
        why = 'must be spec.names.plural+"."+spec.group'
        value = shown(obj["metadata"].get("name", ""))
        causes.append(invalid("metadata.name", value, why))
    if spec.get("scope") not in ("", None, "Namespaced", "Cluster"):
        supported = ("Cluster", "Namespaced")
        causes.append(not_supported("spec.scope", shown(spec["scope"]), supported))
    return causes


_VALIDATORS: Final[dict[str, Callable[[JSON], list[Cause]]]] = {
    "CustomResourceDefinition": _definition,
    "Deployment": _deployment,
    "Event": _event,
    "Pod": _pod,
    "ReplicaSet": _workload,
    "ResourceQuota": _quota,
    "Service": _service,
    "StatefulSet": _workload,
}


# Updates


def _selector_is_fixed(old: JSON, new: JSON) -> list[Cause]:
    selector = new["spec"].get("selector")
    if selector == old["spec"].get("selector"):
        return []
    return [invalid("spec.selector", shown(selector), _IMMUTABLE)]


_POD_MAY_CHANGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def _pod_update(old: JSON, new: JSON) -> list[Cause]:
    before, after = _without_changeable(old["spec"]), _without_changeable(new["spec"])
    if before == after:
        return []
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
    return [forbidden_field("spec", f"{_POD_MAY_CHANGE}{lines}\n")]


def _without_changeable(spec: JSON) -> JSON:
    rest = {
        key: value
        for key, value in spec.items()
        if key not in ("activeDeadlineSeconds", "tolerations")
    }
    for name in ("containers", "initContainers"):
        if name in rest:
            rest[name] = [{**each, "image": ""} for each in rest[name]]
    return rest


_UPDATE_VALIDATORS: Final[dict[str, Callable[[JSON, JSON], list[Cause]]]] = {
    "Deployment": _selector_is_fixed,
    "Pod": _pod_update,
    "ReplicaSet": _selector_is_fixed,
    "StatefulSet": _selector_is_fixed,
}
