"""The resources that an admission policy matches."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import validate_path_segment
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.label_selectors import validate_selector

from .rules import validate_rule

_MATCH_POLICIES: Final = ("Equivalent", "Exact")
_MUTABLE: Final = ("*", "CONNECT", "CREATE", "UPDATE")
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
    """Check the match constraints; `needs_rules` refuses an empty list of rules."""
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


def validate_mutable(match: JSON, field: str) -> list[Cause]:
    """Check that rules match only operations that store an object."""
    return [
        not_supported(f"{field}.resourceRules.operations", shown(each), _MUTABLE)
        for rule in match.get("resourceRules", ())
        for each in rule.get("operations", ())
        if each not in _MUTABLE
    ]


def _validate_rule(rule: JSON, field: str) -> list[Cause]:
    causes: list[Cause] = []
    names = rule.get("resourceNames", [])
    for number, name in enumerate(names):
        where = f"{field}.resourceNames[{number}]"
        causes += validate_path_segment(name, where)
        if name in names[:number]:
            causes.append(duplicate(where, shown(name)))
    return causes + validate_rule(rule, field)
