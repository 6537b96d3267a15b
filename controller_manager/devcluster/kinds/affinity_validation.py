"""Validation of affinity and topology spread constraints (pkg/apis/core/validation)."""

from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

from .label_selectors import NO_VALUES, TOO_MANY_VALUES, validate_selector

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_IN: Final = ("In", "NotIn")
_EXISTS: Final = ("Exists", "DoesNotExist")
_COMPARED: Final = ("Gt", "Lt")
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_EMPTY_KEY: Final = "can not be empty"


def validate_affinity(affinity: JSON, field: str) -> Iterator[Cause]:
    """Yield the errors in the affinity of a pod."""
    if node := affinity.get("nodeAffinity"):
        yield from _validate_node_affinity(node, f"{field}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if pods := affinity.get(name):
            yield from _validate_pod_affinity(pods, f"{field}.{name}")


def validate_spread(constraints: Sequence[JSON], field: str) -> Iterator[Cause]:
    """Yield the errors in the topology spread constraints of a pod."""
    for number, each in enumerate(constraints):
        where = f"{field}[{number}]"
        if (skew := each.get("maxSkew", 0)) <= 0:
            yield invalid(f"{where}.maxSkew", shown(skew), "must be greater than zero")
        yield from _validate_topology_key(each, where)
        if (action := each.get("whenUnsatisfiable", "")) not in _ACTIONS:
            yield not_supported(f"{where}.whenUnsatisfiable", shown(action), _ACTIONS)
        yield from validate_selector(
            each.get("labelSelector"), f"{where}.labelSelector"
        )


def _validate_node_affinity(affinity: JSON, field: str) -> Iterator[Cause]:
    if (needed := affinity.get(_REQUIRED)) is not None:
        where = f"{field}.{_REQUIRED}.nodeSelectorTerms"
        terms = needed.get("nodeSelectorTerms") or []
        if not terms:
            yield required(where, "must have at least one node selector term")
        for number, term in enumerate(terms):
            yield from _validate_term(term, f"{where}[{number}]")
    for number, each in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{field}.{_PREFERRED}[{number}]"
        yield from _validate_weight(each, where)
        yield from _validate_term(each.get("preference") or {}, f"{where}.preference")


def _validate_pod_affinity(affinity: JSON, field: str) -> Iterator[Cause]:
    for number, term in enumerate(affinity.get(_REQUIRED) or ()):
        yield from _validate_pod_term(term, f"{field}.{_REQUIRED}[{number}]")
    for number, each in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{field}.{_PREFERRED}[{number}]"
        yield from _validate_weight(each, where)
        term = each.get("podAffinityTerm") or {}
        yield from _validate_pod_term(term, f"{where}.podAffinityTerm")


def _validate_pod_term(term: JSON, field: str) -> Iterator[Cause]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from validate_selector(term.get(name), f"{field}.{name}")
    yield from _validate_topology_key(term, field)


def _validate_topology_key(term: JSON, field: str) -> Iterator[Cause]:
    if key := term.get("topologyKey"):
        yield from validate_qualified_name(key, f"{field}.topologyKey")
    else:
        yield required(f"{field}.topologyKey", _EMPTY_KEY)


def _validate_weight(each: JSON, field: str) -> Iterator[Cause]:
    if not 1 <= (weight := each.get("weight", 0)) <= 100:
        yield invalid(f"{field}.weight", shown(weight), "must be in the range 1-100")


def _validate_term(term: JSON, field: str) -> Iterator[Cause]:
    for number, each in enumerate(term.get("matchExpressions") or ()):
        yield from _validate_requirement(each, f"{field}.matchExpressions[{number}]")


def _validate_requirement(each: JSON, field: str) -> Iterator[Cause]:
    operator, values = each.get("operator", ""), each.get("values") or []
    where = f"{field}.values"
    if operator in _IN:
        if not values:
            yield required(where, NO_VALUES)
    elif operator in _EXISTS:
        if values:
            yield forbidden_field(where, TOO_MANY_VALUES)
    elif operator in _COMPARED:
        if len(values) != 1:
            why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield required(where, why)
    else:
        value = shown(operator)
        yield invalid(f"{field}.operator", value, "not a valid selector operator")
    yield from validate_qualified_name(each.get("key", ""), f"{field}.key")
