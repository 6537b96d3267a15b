"""The terms by which pods attract or repel others (PodAffinityTerm)."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import (
    NOTHING,
    LabelSelector,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
)

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
