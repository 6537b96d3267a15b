"""Validation of quotas (pkg/apis/core/validation, ValidateResourceQuota)."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.control.quota.resources import (
    LIMITS,
    REQUESTS,
    limits_huge_pages,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.validation.field_values import (
    IMMUTABLE,
    is_whole,
    validate_quantity,
)
from controller_manager.devcluster.validation.text import table

_COMPUTE: Final = ("cpu", "memory")
_POD_COMPUTE: Final = frozenset(
    prefix + name for prefix in ("", REQUESTS, LIMITS) for name in _COMPUTE
)
_OBJECTS: Final = frozenset(
    (
        "pods",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "resourcequotas",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
STANDARD: Final = (
    _POD_COMPUTE
    | _OBJECTS
    | {"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"}
    | {"requests.storage"}
)
_OF_PODS: Final = _POD_COMPUTE | {"pods"}
_OF_CLAIMS: Final = frozenset(("persistentvolumeclaims", "requests.storage"))

_SCOPES: Final = {
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "BestEffort": frozenset(("pods",)),
    "NotBestEffort": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "VolumeAttributesClass": _OF_CLAIMS,
}
"""The standard resources that a quota of each scope may limit."""

_WITH_VALUES: Final = ("PriorityClass", "VolumeAttributesClass")
_CONFLICTS: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})

_ONLY_EXISTS: Final = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_NEEDS_VALUES: Final = (
    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
)
_NO_VALUES: Final = (
    "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector"
)


def validate_amounts(amounts: JSON, field: str) -> Iterator[Cause]:
    """Check names and amounts of limits or of usage."""
    for name, amount in amounts.items():
        where = f"{field}[{name}]"
        if "/" not in name and name not in STANDARD and not limits_huge_pages(name):
            why = "must be a standard resource for quotas"
            yield invalid(where, shown(name), why)
        if problems := validate_quantity(amount, where):
            yield from problems
        elif name in _OBJECTS and not is_whole(amount):
            yield invalid(where, shown(amount), "must be an integer")


def _scopes(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    scopes, where = spec.get("scopes") or [], f"{path}scopes"
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid(where, shown(scopes), "unsupported scope")
        yield from _misapplied(spec, scope, where, scopes)
    if _conflict(scopes):
        yield invalid(where, shown(scopes), "conflicting scopes")


def _misapplied(spec: JSON, scope: str, field: str, value: Any) -> Iterator[Cause]:
    """Yield a cause for each limited resource that a scope does not have."""
    allowed = _SCOPES.get(scope, STANDARD)
    for name in sorted(spec.get("hard", {})):
        if name in STANDARD and name not in allowed:
            why = "unsupported scope applied to resource"
            yield invalid(field, shown(value), why)


def _conflict(scopes: Iterable[str]) -> bool:
    present = set(scopes)
    return any(pair <= present for pair in _CONFLICTS)


def _selector(selector: JSON, path: str, spec: JSON) -> Iterator[Cause]:
    expressions = selector.get("matchExpressions") or []
    where = f"{path}matchExpressions"
    for each in expressions:
        scope = each.get("scopeName", "")
        if scope not in _SCOPES:
            yield invalid(f"{where}.scopeName", shown(scope), "unsupported scope")
        yield from _misapplied(spec, scope, where, selector)
        yield from _validate_operator(each, scope, where)
    if _conflict(each.get("scopeName", "") for each in expressions):
        yield invalid(where, shown(selector), "conflicting scopes")


def _validate_operator(requirement: JSON, scope: str, field: str) -> Iterator[Cause]:
    operator = requirement.get("operator", "")
    values = requirement.get("values") or []
    if scope in _SCOPES and scope not in _WITH_VALUES and operator != "Exists":
        yield invalid(f"{field}.operator", shown(operator), _ONLY_EXISTS)
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{field}.values", _NEEDS_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield invalid(f"{field}.values", shown(values), _NO_VALUES)
    else:
        why = "not a valid selector operator"
        yield invalid(f"{field}.operator", shown(operator), why)


def _scopes_update(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that the scopes do not change; their order and their selector may."""
    before, after = old.get("scopes"), spec.get("scopes")
    if {*(before or ())} != {*(after or ())}:
        yield invalid(f"{path}scopes", shown(after), IMMUTABLE)


QUOTA: Final = table(
    """
    spec:
      hard: amounts
      hook scopes
      scopeSelector:
        hook selector
    """,
    validate_amounts,
    _scopes,
    _selector,
)
QUOTA_UPDATE: Final = table(
    """
    spec change:
      hook scopes_update
    """,
    _scopes_update,
)
QUOTA_STATUS: Final = table(
    """
    status:
      hard, used: amounts
    """,
    validate_amounts,
)
