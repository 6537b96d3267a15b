"""The rules for affinity, topology spread constraints and tolerations of pods."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import names, statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown

from .label_selectors import NO_VALUES, TOO_MANY_VALUES
from .text import table

_ONE_VALUE: Final = "must be specified single value when `operator` is 'Lt' or 'Gt'"
_COMPARISONS: Final = ("Gt", "Lt")
"""Operators that upstream has behind the gate TaintTolerationComparisonOperators."""


def _operator(requirement: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that a requirement of nodes has the values that its operator needs."""
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    where = f"{path}values"
    if operator in ("In", "NotIn"):
        if not values:
            yield statuses.required(where, NO_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield statuses.forbidden_field(where, TOO_MANY_VALUES)
    elif operator not in ("Gt", "Lt"):
        why = "not a valid selector operator"
        yield statuses.invalid(f"{path}operator", shown(operator), why)
    elif len(values) != 1:
        yield statuses.required(where, _ONE_VALUE)


_TERM: Final = table(
    """
    matchExpressions[]:
      hook operator
      key: qualified default empty
    """,
    _operator,
)
_TOPOLOGY_KEY: Final = table(
    """
    topologyKey: required "can not be empty"
    topologyKey: qualified
    """
)
_POD_TERM: Final = table(
    """
    labelSelector, namespaceSelector: selector
    include TOPOLOGY_KEY
    """,
    TOPOLOGY_KEY=_TOPOLOGY_KEY,
)
_PODS: Final = table(
    """
    requiredDuringSchedulingIgnoredDuringExecution[]:
      include POD_TERM
    preferredDuringSchedulingIgnoredDuringExecution[]:
      weight: range 1 100 default 0 "must be in the range 1-100"
      podAffinityTerm always:
        include POD_TERM
    """,
    POD_TERM=_POD_TERM,
)
AFFINITY: Final = table(
    """
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: required "must have at least one node selector term"
        nodeSelectorTerms[]:
          include TERM
      preferredDuringSchedulingIgnoredDuringExecution[]:
        weight: range 1 100 default 0 "must be in the range 1-100"
        preference:
          include TERM
    podAffinity:
      include PODS
    podAntiAffinity:
      include PODS
    """,
    TERM=_TERM,
    PODS=_PODS,
)
SPREAD_CONSTRAINT: Final = table(
    """
    maxSkew: at-least 1 default 0 "must be greater than zero"
    include TOPOLOGY_KEY
    whenUnsatisfiable: enum DoNotSchedule ScheduleAnyway default empty
    labelSelector: selector
    """,
    TOPOLOGY_KEY=_TOPOLOGY_KEY,
)


def _value(toleration: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the value of a toleration by its operator, which the causes name."""
    operator, where = toleration.get("operator", ""), f"{path}operator"
    if operator in ("Equal", ""):
        yield from names.validate_labels({"key": toleration.get("value", "")}, where)
    elif operator == "Exists":
        if toleration.get("value"):
            why = "value must be empty when `operator` is 'Exists'"
            yield statuses.invalid(where, shown(toleration), why)
    elif operator not in _COMPARISONS:
        yield statuses.not_supported(where, shown(operator), ("Equal", "Exists"))


def _needs_exists(toleration: JSON, _: JSON) -> bool:
    return not toleration.get("key") and toleration.get("operator") != "Exists"


TOLERATION: Final = table(
    r"""
    key: qualified
    operator: invalid default empty if needs_exists
      "operator must be Exists when `key` is empty, which means \"match all values and"
      "all keys\""
    effect: invalid default empty if has tolerationSeconds and effect is-not NoExecute
      "effect must be 'NoExecute' when `tolerationSeconds` is set"
    hook value
    effect: enum NoSchedule PreferNoSchedule NoExecute
    """,
    _needs_exists,
    _value,
)


def _as_go_prints(taint: JSON) -> JSON:
    """Return a taint with the names of the fields of Go's internal type."""
    return {
        "Key": taint.get("key", ""),
        "Value": taint.get("value", ""),
        "Effect": taint.get("effect", ""),
        "TimeAdded": taint.get("timeAdded"),
    }


TAINT: Final = table(
    """
    key: qualified default empty
    value: label-value
    effect: required
    effect: enum NoSchedule PreferNoSchedule NoExecute filled
    key, effect: unique show as_go_prints
      "taints must be unique by key and effect pair"
    """,
    _as_go_prints,
)
