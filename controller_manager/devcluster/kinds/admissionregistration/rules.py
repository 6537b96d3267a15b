"""Validation of rules, as webhooks and policies have them (validateRule)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)

_SCOPES: Final = ("*", "Cluster", "Namespaced")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_WORDS: Final = {
    "operations": "operations",
    "apiGroups": "API groups",
    "apiVersions": "API versions",
}


def validate_rule(rule: JSON, field: str) -> list[Cause]:
    """Check the operations, groups, versions, resources and the scope of a rule."""
    causes = _validate_list(rule, "operations", field)
    causes += [
        not_supported(f"{field}.operations[{number}]", shown(each), _OPERATIONS)
        for number, each in enumerate(rule.get("operations", ()))
        if each not in _OPERATIONS
    ]
    causes += _validate_list(rule, "apiGroups", field)
    causes += _validate_list(rule, "apiVersions", field)
    causes += [
        required(f"{field}.apiVersions[{number}]")
        for number, each in enumerate(rule.get("apiVersions", ()))
        if not each
    ]
    causes += _validate_resources(rule.get("resources", []), f"{field}.resources")
    if rule.get("scope") not in _SCOPES:
        where = f"{field}.scope"
        causes.append(not_supported(where, shown(rule.get("scope")), _SCOPES))
    return causes


def _validate_list(rule: JSON, name: str, field: str) -> list[Cause]:
    values, where = rule.get(name, []), f"{field}.{name}"
    if not values:
        return [required(where)]
    if len(values) > 1 and "*" in values:
        detail = f"if '*' is present, must not specify other {_WORDS[name]}"
        return [invalid(where, shown(values), detail)]
    return []


def _validate_resources(resources: list[str], field: str) -> list[Cause]:
    causes = [] if resources else [required(field)]
    wild: dict[str, set[str]] = {"of": set(), "in": set()}
    for number, each in enumerate(resources):
        where = f"{field}[{number}]"
        plural, slash, subresource = each.partition("/")
        if not each:
            causes.append(required(where))
        if not slash:
            continue
        if plural in wild["of"]:
            detail = f"if '{plural}/*' is present, must not specify {each}"
            causes.append(invalid(where, shown(each), detail))
        if subresource in wild["in"]:
            detail = f"if '*/{subresource}' is present, must not specify {each}"
            causes.append(invalid(where, shown(each), detail))
        if subresource == "*":
            wild["of"].add(plural)
        if plural == "*":
            wild["in"].add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        causes.append(invalid(field, shown(resources), detail))
    plain = [each for each in resources if each and "/" not in each]
    if "*" in plain and plain[-1] != "*":
        detail = (
            "if '*' is present, must not specify other resources without subresources"
        )
        causes.append(invalid(field, shown(resources), detail))
    return causes
