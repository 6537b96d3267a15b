"""Which nodes a pod may be on: taints, tolerations, selectors and required affinity.

Upstream: component-helpers, scheduling/corev1 and its nodeaffinity.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.core.scheduling import (
    NODE_NAME_FIELD,
    Affinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    Toleration,
)
from controller_manager.api.core.v1 import Node
from controller_manager.api.meta import labels_of
from controller_manager.api.scalars import parse_int
from controller_manager.api.selectors import Requirement, Selector

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(
    toleration: Toleration, taint: Taint, *, compares_numbers: bool = False
) -> bool:
    """Tell whether one toleration tolerates one taint (ToleratesTaint).

    `compares_numbers` enables Lt and Gt (the gate TaintTolerationComparisonOperators).
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if compares_numbers:
            return _compares(toleration.operator, taint.value, toleration.value)
    return False


def _compares(operator: str, value: str, bound: str) -> bool:
    number, limit = _number(value), _number(bound)
    if number is None or limit is None:
        return False
    return number < limit if operator == "Lt" else number > limit


def _number(text: str) -> int | None:
    return parse_int(text, 64) if _INTEGER.fullmatch(text) else None


def untolerated(
    taints: Iterable[Taint] | None,
    tolerations: Sequence[Toleration],
    effects: Collection[str],
    *,
    compares_numbers: bool = False,
) -> Taint | None:
    """Return the first taint not tolerated (FindMatchingUntoleratedTaint)."""
    for taint in taints or ():
        if taint.effect in effects and not any(
            tolerates(each, taint, compares_numbers=compares_numbers)
            for each in tolerations
        ):
            return taint
    return None


_LONGEST_VALUE: Final = 63
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")

_FITTING_VALUES: Final[Mapping[str, Callable[[int], bool]]] = {
    "In": lambda count: count > 0,
    "NotIn": lambda count: count > 0,
    "Exists": lambda count: count == 0,
    "DoesNotExist": lambda count: count == 0,
    "Gt": lambda count: count == 1,
    "Lt": lambda count: count == 1,
}
"""By operator: a function that checks the number of values of a requirement."""


class _Term(Struct, frozen=True):
    """One term: requirements on the labels and on the name of a node."""

    labels: Selector
    names: tuple[tuple[bool, str], ...] = ()
    """Pairs of a flag and a name: the node must have that name (true), or must not."""

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.labels.matches(labels):
            return False
        return all((name == other) is wanted for wanted, other in self.names)


class RequiredNodes(Struct, frozen=True):
    """The nodes that a pod requires by its node selector and node affinity.

    `None` terms do not count; an empty tuple of terms matches no node.
    """

    selector: Selector
    terms: tuple[_Term, ...] | None = None

    def matches(self, node: Node) -> bool:
        """Tell whether the pod may run on the node, as far as its name and labels."""
        labels = labels_of(node)
        if not self.selector.matches(labels):
            return False
        if self.terms is None:
            return True
        name = node.metadata.name
        return any(term.matches(name, labels) for term in self.terms)


def required_nodes(
    node_selector: Mapping[str, str] | None, affinity: Affinity | None
) -> RequiredNodes:
    """Return the requirements of a pod's spec, compiled (GetRequiredNodeAffinity).

    A term matches no node if it is empty, or invalid.
    """
    selector = Selector(exact=tuple((node_selector or {}).items()))
    node_affinity = affinity.node_affinity if affinity is not None else None
    if node_affinity is None or node_affinity.required is None:
        return RequiredNodes(selector)
    terms = map(_compile_term, node_affinity.required.node_selector_terms or ())
    return RequiredNodes(selector, tuple(term for term in terms if term is not None))


def _compile_term(term: NodeSelectorTerm) -> _Term | None:
    if not term.match_expressions and not term.match_fields:
        return None
    expressions = tuple(map(_compile_label, term.match_expressions or ()))
    names = tuple(map(_compile_field, term.match_fields or ()))
    if None in expressions or None in names:
        return None
    return _Term(
        Selector(requirements=tuple(each for each in expressions if each is not None)),
        tuple(each for each in names if each is not None),
    )


def _compile_label(expression: NodeSelectorRequirement) -> Requirement | None:
    values, operator = expression.values or (), expression.operator
    if operator not in _FITTING_VALUES or not _FITTING_VALUES[operator](len(values)):
        return None
    if not all(map(_is_label_value, values)):
        return None
    if operator in ("Gt", "Lt") and parse_int(values[0], 64) is None:
        return None
    return Requirement(expression.key, operator, frozenset(values))


def _is_label_value(value: str) -> bool:
    return len(value) <= _LONGEST_VALUE and bool(_LABEL_VALUE.fullmatch(value))


def _compile_field(field: NodeSelectorRequirement) -> tuple[bool, str] | None:
    values = field.values or ()
    if field.key != NODE_NAME_FIELD or len(values) != 1:
        return None
    if field.operator not in ("In", "NotIn"):
        return None
    return field.operator == "In", values[0]
