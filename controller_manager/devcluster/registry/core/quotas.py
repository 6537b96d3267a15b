"""Resource quotas and limit ranges."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from controller_manager.api.core.resources import HUGE_PAGES_PREFIX
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import Quantity, parse_quantity
from controller_manager.control.quota.resources import (
    LIMITS,
    REQUESTS,
    is_extended,
    is_native,
    limits_huge_pages,
)
from controller_manager.devcluster.registry.kinds import kind_of
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.validation.values import (
    IMMUTABLE,
    is_whole,
    validate_quantity,
)

# ResourceQuota: how much the pods of a namespace may use (ValidateResourceQuota)

_COMPUTE: Final = ("cpu", "memory")
_POD_COMPUTE: Final = frozenset(
    prefix + name for prefix in ("", REQUESTS, LIMITS) for name in _COMPUTE
)
_OBJECTS: Final = frozenset(
    (
        *("pods", "services", "replicationcontrollers", "secrets", "configmaps"),
        *("resourcequotas", "persistentvolumeclaims", "services.nodeports"),
        "services.loadbalancers",
    )
)
_STANDARD: Final = (
    _POD_COMPUTE
    | _OBJECTS
    | {"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"}
    | {"requests.storage"}
)
_OF_PODS: Final = _POD_COMPUTE | {"pods"}

_SCOPES: Final = {
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "BestEffort": frozenset(("pods",)),
    "NotBestEffort": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", "requests.storage")),
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


def _amounts(amounts: JSON, field: str) -> Iterator[Cause]:
    for name, amount in amounts.items():
        where = f"{field}[{name}]"
        if "/" not in name and name not in _STANDARD and not limits_huge_pages(name):
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
    allowed = _SCOPES.get(scope, _STANDARD)
    for name in sorted(spec.get("hard", {})):
        if name in _STANDARD and name not in allowed:
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


def _used(quota: JSON, *, limits: bool) -> str:
    status = quota["status"]
    hard, used = status.get("hard") or {}, status.get("used") or {}
    return ", ".join(
        f"{name}: {used.get(name, 0)}/{hard[name]}"
        for name in sorted(hard)
        if name.startswith(LIMITS) is limits
    )


_request: Final = partial(_used, limits=False)
_limit: Final = partial(_used, limits=True)


QUOTAS: Final = kind_of(
    "v1/resourcequotas",
    defaults={"spec": {}, "status": {}},
    returns_deleted=True,
    rules="""
        spec:
          hard: amounts
          hook scopes
          scopeSelector:
            hook selector
        """,
    update_rules="spec change:\n  hook scopes_update",
    status_rules="status:\n  hard, used: amounts",
    printer="Name; Request: request; Limit: limit; Age",
)

# LimitRange: limits for the requests of containers in a namespace (ValidateLimitRange)

_POD: Final = "Pod"
_CONTAINER: Final = "Container"
_CLAIM: Final = "PersistentVolumeClaim"
_OF_CONTAINERS: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
_MOST: Final = (2**63 - 1) * 10**9
"""Billionths that a quantity of upstream holds at most; ours may be larger."""

_NO_DEFAULTS: Final = "may not be specified when `type` is 'Pod'"
_NO_STORAGE: Final = (
    "either minimum or maximum storage value is required, but neither was provided"
)
_AMOUNTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_COMPARED: Final = (
    ("min", "max", "min", "min", "max"),
    ("min", "defaultRequest", "defaultRequest", "min", "default request"),
    ("defaultRequest", "max", "defaultRequest", "default request", "max"),
    ("defaultRequest", "default", "defaultRequest", "default request", "default limit"),
    ("min", "default", "default", "min", "default"),
    ("default", "max", "default", "default", "max"),
)
"""The smaller field, the larger one, the one with the error, and upstream's words."""


def _type(name: str, field: str) -> Iterator[Cause]:
    if problems := validate_qualified_name(name, field):
        yield from problems
    elif "/" not in name and name not in (_POD, _CONTAINER, _CLAIM):
        detail = "must be a standard limit type or fully qualified"
        yield invalid(field, shown(name), detail)


def _item(item: JSON, path: str, _: JSON) -> Iterator[Cause]:
    field = path[:-1]
    amounts: dict[str, dict[str, Quantity]] = {}
    for name in _AMOUNTS:
        if item["type"] == _POD and name.startswith("default"):
            if item.get(name):
                yield forbidden_field(f"{field}.{name}", _NO_DEFAULTS)
            continue
        if name == "maxLimitRequestRatio" and item["type"] == _CLAIM:
            yield from _storage(item, field)
        amounts[name] = {}
        for resource, text in (item.get(name) or {}).items():
            where = f"{field}.{name}[{resource}]"
            yield from _resource(item["type"], resource, where)
            amounts[name][resource] = parse_quantity(text)
    for resource in sorted({each for found in amounts.values() for each in found}):
        of_one = {
            name: found[resource]
            for name, found in amounts.items()
            if resource in found
        }
        yield from _compared(of_one, resource, field)


def _storage(item: JSON, field: str) -> Iterator[Cause]:
    given = {*(item.get("min") or ()), *(item.get("max") or ())}
    if "storage" not in given:
        yield required(f"{field}.limits", _NO_STORAGE)


def _resource(kind: str, name: str, field: str) -> Iterator[Cause]:
    """Check the name of a resource: only containers and pods use some of them."""
    if problems := validate_qualified_name(name, field):
        yield from problems
        return
    is_huge = name.startswith(HUGE_PAGES_PREFIX)
    if "/" not in name and not is_huge and name not in _STANDARD | {"storage"}:
        detail = "must be a standard resource type or fully qualified"
        yield invalid(field, shown(name), detail)
    if kind not in (_POD, _CONTAINER):
        return
    if "/" not in name and not is_huge and name not in _OF_CONTAINERS:
        detail = "must be a standard resource for containers"
        yield invalid(field, shown(name), detail)
    elif not is_native(name) and not is_extended(name):
        detail = "doesn't follow extended resource name standard"
        yield invalid(field, shown(name), detail)


def _compared(
    amounts: dict[str, Quantity], resource: str, field: str
) -> Iterator[Cause]:
    """Compare the amounts of one resource, by the names of their fields."""
    for low, high, wrong, less, more in _COMPARED:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            shows = wrong
            if wrong == "default":  # then upstream shows the bound
                shows = low if low == "min" else high
            detail = (
                f"{less} value {amounts[low]} is greater than {more} value "
                f"{amounts[high]}"
            )
            where = f"{field}.{wrong}[{resource}]"
            yield invalid(where, shown(str(amounts[shows])), detail)
    if ratio := amounts.get("maxLimitRequestRatio"):
        yield from _ratio(ratio, amounts, f"{field}.maxLimitRequestRatio[{resource}]")
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    is_fixed = not is_native(resource) or resource.startswith(HUGE_PAGES_PREFIX)
    if is_fixed and default is not None and request not in (None, default):
        detail = (
            f"default value {default} must equal to defaultRequest value {request} in "
            f"{resource}"
        )
        where = f"{field}.defaultRequest[{resource}]"
        yield invalid(where, shown(str(request)), detail)


def _ratio(
    ratio: Quantity, amounts: dict[str, Quantity], field: str
) -> Iterator[Cause]:
    if ratio < Quantity.of(1):
        yield invalid(field, shown(str(ratio)), f"ratio {ratio} is less than 1")
    low, high = amounts.get("min"), amounts.get("max")
    if low is None or high is None or low.is_zero:
        return  # with a minimum of zero, the largest ratio is infinite
    if ratio.nanos * low.nanos > high.nanos * Quantity.of(1).nanos:
        most = min(high.nanos, _MOST) / min(low.nanos, _MOST)
        detail = f"ratio {ratio} is greater than max/min = {most:f}"
        yield invalid(field, shown(str(ratio)), detail)


def _default_limits(obj: JSON) -> None:
    """Fill in the limits for containers: from max, then default, then min."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("limits", None)  # Go writes the field also when it is absent
    for item in spec["limits"] or ():
        if item.get("type") == _CONTAINER:
            _fill_in(item, "default", "max")
            _fill_in(item, "defaultRequest", "default")
            _fill_in(item, "defaultRequest", "min")


def _fill_in(item: JSON, field: str, source: str) -> None:
    if found := {**(item.get(source) or {}), **(item.get(field) or {})}:
        item[field] = found


LIMIT_RANGES: Final = kind_of(
    "v1/limitranges",
    apply_defaults=_default_limits,
    rules="""
        spec:
          limits[]:
            type: type default empty
            type: unique pointer
            hook item
        """,
)
