"""Predicates and terms of affinity: which nodes and which pods a pod wants."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.core.scheduling import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Taint,
    Toleration,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.api.selectors import (
    NOTHING,
    LabelSelector,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
)
from controller_manager.control.scheduling import untolerated

# The terms by which pods attract or repel others (PodAffinityTerm).

Labels = Mapping[str, str]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Term(Struct, frozen=True):
    """The pods that a term selects, and its topology key.

    Its pods are in `namespaces`, and in those that `namespace_selector` selects.
    """

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    weight: int = 0

    def selects(
        self, namespace: str, labels: Labels, labels_of: Callable[[str], Labels]
    ) -> bool:
        """Tell whether the term is about a pod; `labels_of` knows the namespaces."""
        if not self.selector.matches(labels):
            return False
        return self.includes(namespace, labels_of)

    def includes(self, namespace: str, labels_of: Callable[[str], Labels]) -> bool:
        """Tell whether the term is about pods of a namespace."""
        if namespace in self.namespaces:
            return True
        selector = self.namespace_selector
        return not selector.nothing and selector.matches(labels_of(namespace))


def terms_of(pod: JSON, affinity: JSON | None) -> tuple[Term, ...]:
    """Return the required terms of a pod's affinity or anti-affinity."""
    return tuple(_term(pod, each, 0) for each in (affinity or {}).get(_REQUIRED) or ())


def preferences_of(pod: JSON, affinity: JSON | None) -> tuple[Term, ...]:
    """Return the preferred terms of a pod's affinity or anti-affinity."""
    return tuple(
        _term(pod, each.get("podAffinityTerm") or {}, each.get("weight", 0))
        for each in (affinity or {}).get(_PREFERRED) or ()
    )


def _term(pod: JSON, term: JSON, weight: int) -> Term:
    namespaces = frozenset(term.get("namespaces") or ())
    selector = term.get("namespaceSelector")
    if not namespaces and selector is None:
        namespaces = frozenset((pod["metadata"]["namespace"],))
    return Term(
        term.get("topologyKey", ""),
        selector_of(pod, term),
        namespaces,
        compiled(selector),
        weight,
    )


def selector_of(pod: JSON, term: JSON) -> Selector:
    """Return the selector of a term, with the labels that it takes from its pod."""
    selector = compiled(term.get("labelSelector"))
    labels = pod["metadata"].get("labels") or {}
    more = [
        Requirement(key, operator, frozenset((labels[key],)))
        for field, operator in (
            ("matchLabelKeys", "In"),
            ("mismatchLabelKeys", "NotIn"),
        )
        for key in term.get(field) or ()
        if key in labels
    ]
    if not more:
        return selector
    requirements = (*selector.requirements, *more)
    return msgspec.structs.replace(selector, requirements=requirements)


def compiled(selector: JSON | None) -> Selector:
    """Return the evaluable form of a selector; a wrong one selects nothing."""
    if selector is None:
        return NOTHING
    try:
        return compile_selector(msgspec.convert(selector, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return NOTHING


# Predicates: nodes that fit a pod, and reasons of the others (filter plugins).

UNSCHEDULABLE: Final = "node(s) were unschedulable"
TAINTED: Final = "node(s) had untolerated taint(s)"
UNMATCHED: Final = "node(s) didn't match Pod's node affinity/selector"
OTHER_NODE: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity]"

_CORDONED: Final = Taint("node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)


class NodeFacts(Struct, frozen=True):
    """The facts about a node for the scheduler; equal values fit the same pods."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Mapping[str, int] = {}
    """The allocatable resources, in billionths of the units."""

    @classmethod
    def of(cls, node: JSON) -> "NodeFacts":
        """Return the facts of a node object."""
        metadata, spec = node["metadata"], node.get("spec", {})
        return cls(
            metadata["name"],
            metadata.get("labels", {}),
            msgspec.convert(spec.get("taints") or [], tuple[Taint, ...]),
            bool(spec.get("unschedulable")),
            _amounts(node.get("status", {}).get("allocatable") or {}),
        )


def _amounts(quantities: JSON) -> Mapping[str, int]:
    return {name: parse_quantity(str(text)).nanos for name, text in quantities.items()}


def why_not(pod: JSON, node: NodeFacts) -> str:
    """Return why a node does not fit a pod, empty if it does.

    The reason is the first one in the order of the scheduler's plugins.
    """
    spec = pod["spec"]
    if not node.taints and not node.unschedulable:
        return "" if _matches_affinity(spec, node) else UNMATCHED
    tolerations = tolerations_of(pod)
    if node.unschedulable and untolerated([_CORDONED], tolerations, _EFFECTS):
        return UNSCHEDULABLE
    if untolerated(node.taints, tolerations, _EFFECTS):
        return TAINTED
    if not _matches_affinity(spec, node):
        return UNMATCHED
    return ""


def named_nodes(pod: JSON) -> frozenset[str] | None:
    """Return the only nodes that the affinity allows by name, `None` for any.

    Daemon pods are bound to their nodes that way.
    """
    terms = _terms(pod["spec"])
    if not terms:
        return None
    found: set[str] = set()
    for term in terms:
        names = _names(term)
        if names is None:
            return None
        found |= names
    return frozenset(found)


def _names(term: JSON) -> set[str] | None:
    """Return the node names that one term allows, `None` if it names none."""
    found: set[str] | None = None
    for each in term.get("matchFields", ()):
        if each.get("key") == "metadata.name" and each.get("operator") == "In":
            values = set(each.get("values", ()))
            found = values if found is None else found & values
    return found


def _matches_affinity(spec: JSON, node: NodeFacts) -> bool:
    selector = spec.get("nodeSelector", {})
    if any(node.labels.get(key) != value for key, value in selector.items()):
        return False
    terms = _terms(spec)
    return terms is None or matches_terms(terms, node)


def matches_terms(terms: Iterable[JSON], node: NodeFacts) -> bool:
    """Tell whether a node matches one of several terms (NodeSelector)."""
    return any(_matches_term(term, node) for term in terms)


def _terms(spec: JSON) -> list[JSON] | None:
    """Return the terms of the required node affinity, `None` without one."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms", [])


def _matches_term(term: JSON, node: NodeFacts) -> bool:
    """Tell whether a node matches one term; an empty term matches no node."""
    expressions, fields = term.get("matchExpressions"), term.get("matchFields")
    if not expressions and not fields:
        return False
    return all(_matches(each, node.labels) for each in expressions or ()) and all(
        _matches(each, {"metadata.name": node.name}) for each in fields or ()
    )


def _matches(expression: JSON, values: Mapping[str, str]) -> bool:
    """Tell whether a requirement holds; an invalid requirement never holds."""
    requirement = Requirement(
        expression.get("key", ""),
        expression.get("operator", ""),
        frozenset(expression.get("values", ())),
    )
    try:
        return requirement.matches(values)
    except (KeyError, ValueError):  # an unknown operator, or a bound that is no number
        return False


def affinity_fits(pod: JSON, node: NodeFacts) -> bool:
    """Tell whether the selector and the affinity of a pod allow a node."""
    return _matches_affinity(pod["spec"], node)


def tolerations_of(pod: JSON) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod."""
    return msgspec.convert(pod["spec"].get("tolerations") or [], tuple[Toleration, ...])


def matches_preference(term: JSON, node: NodeFacts) -> bool:
    """Tell whether a node matches a preferred term; an empty one matches all."""
    return not term or _matches_term(term, node)
