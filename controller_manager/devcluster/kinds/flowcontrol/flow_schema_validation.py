"""Validation of flow schemas (pkg/apis/flowcontrol/validation)."""

from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import (
    validate_label,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

_MOST: Final = 10_000
_METHODS: Final = ("ByNamespace", "ByUser")
_SUBJECTS: Final = {
    "Group": "group",
    "ServiceAccount": "serviceAccount",
    "User": "user",
}
_VERBS: Final = (
    *("create", "delete", "deletecollection", "get", "list", "patch", "proxy"),
    *("update", "watch"),
)
_NO_RULE: Final = (
    "at least one of resourceRules and nonResourceRules has to be non-empty"
)
_NO_NAMESPACE: Final = (
    "resource rules that are not cluster scoped must supply at least one namespace"
)
_NAMESPACE: Final = "each member of this list must be '*' or a DNS-1123 label; "


def validate_schema_spec(name: str, spec: JSON) -> Iterator[Cause]:
    """Yield the errors in the spec of the flow schema `name`."""
    yield from _validate_precedence(name, spec["matchingPrecedence"])
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        value = shown(method.get("type", ""))
        yield not_supported("spec.distinguisherMethod.type", value, _METHODS)
    field = "spec.priorityLevelConfiguration.name"
    if level := spec["priorityLevelConfiguration"].get("name"):
        yield from validate_subdomain(level, field)
    else:
        yield required(field, "must reference a priority level")
    for number, rule in enumerate(spec.get("rules") or ()):
        yield from _validate_rule(rule, f"spec.rules[{number}]")


def validate_types_of_conditions(status: JSON) -> Iterator[Cause]:
    """Yield the errors in the conditions of a schema or a priority level."""
    seen = set()
    for number, condition in enumerate(status.get("conditions") or ()):
        name, field = condition.get("type", ""), f"status.conditions[{number}].type"
        if name in seen:
            yield duplicate(field, shown(name))
        seen.add(name)
        if not name:
            yield required(field, "must not be empty")


def _validate_precedence(name: str, precedence: int) -> Iterator[Cause]:
    field, value = "spec.matchingPrecedence", shown(precedence)
    if precedence <= 0:
        yield invalid(field, value, "must be a positive value")
    if precedence > _MOST:
        yield invalid(field, value, f"must not be greater than {_MOST}")
    if precedence == 1 and name != "exempt":
        why = "only the schema named 'exempt' may have matchingPrecedence 1"
        yield invalid(field, value, why)


def _validate_rule(rule: JSON, field: str) -> Iterator[Cause]:
    subjects = rule.get("subjects") or []
    for number, subject in enumerate(subjects):
        yield from _validate_subject(subject, f"{field}.subjects[{number}]")
    if not subjects:
        yield required(f"{field}.subjects", "subjects must contain at least one value")
    resources = rule.get("resourceRules") or []
    others = rule.get("nonResourceRules") or []
    if not resources and not others:
        yield required(field, _NO_RULE)
    for number, each in enumerate(resources):
        yield from _validate_resource_rule(each, f"{field}.resourceRules[{number}]")
    for number, each in enumerate(others):
        yield from _validate_path_rule(each, f"{field}.nonResourceRules[{number}]")


def _validate_subject(subject: JSON, field: str) -> Iterator[Cause]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        yield not_supported(f"{field}.kind", shown(kind), tuple(_SUBJECTS))
        return
    own = _SUBJECTS[kind]
    if (named := subject.get(own)) is None:
        yield required(
            f"{field}.{own}", f"{own} is required when subject kind is '{kind}'"
        )
    else:
        yield from _validate_named(named, kind, f"{field}.{own}")
    for other, name in _SUBJECTS.items():
        if name != own and name in subject:
            why = f"{name} is forbidden when subject kind is not '{other}'"
            yield forbidden_field(f"{field}.{name}", why)


def _validate_named(named: JSON, kind: str, field: str) -> Iterator[Cause]:
    name = named.get("name", "")
    if not name:
        yield required(f"{field}.name")
    if kind != "ServiceAccount":
        return
    if name and name != "*":
        yield from validate_subdomain(name, f"{field}.name")
    if namespace := named.get("namespace"):
        yield from validate_label(namespace, f"{field}.namespace")
    else:
        why = "must specify namespace for service account"
        yield required(f"{field}.namespace", why)


def _validate_resource_rule(rule: JSON, field: str) -> Iterator[Cause]:
    yield from _validate_verbs(rule.get("verbs") or [], f"{field}.verbs")
    for name, one, many in (
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ):
        why = f"resource rules must supply at least one {one}"
        yield from _validate_list(rule.get(name) or [], f"{field}.{name}", why, many)
    namespaces, where = rule.get("namespaces") or [], f"{field}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        yield required(where, _NO_NAMESPACE)
    elif "*" in namespaces:
        yield from _validate_list(namespaces, where, "", "namespaces")
    else:
        for number, each in enumerate(namespaces):
            for cause in validate_label(each, f"{where}[{number}]"):
                start, text = f"Invalid value: {shown(each)}: ", cause.detail
                detail = f"{start}{_NAMESPACE}{text.removeprefix(start)}"
                yield Cause(cause.reason, cause.field, detail)


def _validate_path_rule(rule: JSON, field: str) -> Iterator[Cause]:
    yield from _validate_verbs(rule.get("verbs") or [], f"{field}.verbs")
    paths, where = rule.get("nonResourceURLs") or [], f"{field}.nonResourceURLs"
    why = "nonResourceURLs must contain at least one value"
    yield from _validate_list(paths, where, why, "non-resource URLs")
    if "*" not in paths:
        for number, path in enumerate(paths):
            if problem := _problem_of_path(path):
                yield invalid(f"{where}[{number}]", shown(path), problem)


def _validate_verbs(verbs: Sequence[str], field: str) -> Iterator[Cause]:
    why = "verbs must contain at least one value"
    yield from _validate_list(verbs, field, why, "verbs")
    if "*" not in verbs and not set(verbs) <= set(_VERBS):
        yield not_supported(field, shown(verbs), _VERBS)


def _validate_list(
    values: Sequence[str], field: str, why: str, many: str
) -> Iterator[Cause]:
    """Check that a list is not empty, and that a star stands alone."""
    if not values:
        yield required(field, why)
    elif "*" in values and len(values) > 1:
        detail = f"if '*' is present, must not specify other {many}"
        yield invalid(field, shown(values), detail)


def _problem_of_path(path: str) -> str:
    """Return why a path cannot be in a rule, "" if it can."""
    found = (
        (not path, "must not be empty"),
        (not path.startswith("/"), "must start with slash"),
        (" " in path, "must not contain white-space"),
        ("//" in path, "must not contain double slash"),
        (
            path.count("*") > 1 or ("*" in path and not path.endswith("/*")),
            "wildcard can only do suffix matching",
        ),
    )
    return next((detail for is_so, detail in found if is_so), "")
