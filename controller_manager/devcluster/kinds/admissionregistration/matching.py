"""The resources that an admission policy matches."""

from typing import Any, Final

from controller_manager.devcluster.kinds.label_selectors import validate_selector
from controller_manager.devcluster.server.names import validate_path_segment
from controller_manager.devcluster.server.statuses import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    required,
    shown,
)

JSON = dict[str, Any]

_MATCH_POLICIES: Final = ("Equivalent", "Exact")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_LISTS: Final = ("resourceRules", "excludeResourceRules")


def apply_match_defaults(match: JSON) -> None:
    """Fill in policy, selectors and scopes."""
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for name in _LISTS:
        for rule in match.get(name, ()):
            rule.setdefault("scope", "*")


def validate_match(match: JSON, field: str, *, needs_rules: bool) -> list[Cause]:
    """Check the resources that are matched; `needs_rules` refuses an empty list."""
    causes = []
    policy = match.get("matchPolicy")
    if policy not in _MATCH_POLICIES:
        where = f"{field}.matchPolicy"
        causes.append(not_supported(where, shown(policy), _MATCH_POLICIES))
    for name in ("namespaceSelector", "objectSelector"):
        causes += validate_selector(match.get(name), f"{field}.{name}")
    if needs_rules and not match.get("resourceRules"):
        causes.append(required(f"{field}.resourceRules"))
    for name in _LISTS:
        for number, rule in enumerate(match.get(name, ())):
            causes += _validate_rule(rule, f"{field}.{name}[{number}]")
    return causes


def _validate_rule(rule: JSON, field: str) -> list[Cause]:
    causes: list[Cause] = []
    names = rule.get("resourceNames", [])
    for number, name in enumerate(names):
        where = f"{field}.resourceNames[{number}]"
        causes += validate_path_segment(name, where)
        if name in names[:number]:
            causes.append(duplicate(where, shown(name)))
    for name in ("apiGroups", "apiVersions", "resources", "operations"):
        values, where = rule.get(name, []), f"{field}.{name}"
        if not values:
            causes.append(required(where))
        if len(values) > 1 and "*" in values:
            detail = "if '*' is present, must not specify other " + name
            causes.append(invalid(where, shown(values), detail))
        if name in ("apiVersions", "resources"):
            causes += [
                required(f"{where}[{number}]")
                for number, each in enumerate(values)
                if not each
            ]
    causes += [
        not_supported(f"{field}.operations[{number}]", shown(each), _OPERATIONS)
        for number, each in enumerate(rule.get("operations", []))
        if each not in _OPERATIONS
    ]
    if rule.get("scope") not in _SCOPES:
        where = f"{field}.scope"
        causes.append(not_supported(where, shown(rule.get("scope")), _SCOPES))
    return causes
