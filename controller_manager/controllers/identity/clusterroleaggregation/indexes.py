"""Indexes of cluster roles: by their labels, and by the labels that they select.

Upstream compares all roles with each aggregated role after each change of a role.
"""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.meta import labels_of
from controller_manager.api.rbac.v1 import ClusterRole
from controller_manager.api.selectors import Selector, SelectorError
from controller_manager.informers.indexes import Index

from .aggregation import selectors_of

ANY: Final = ""
"""The entry of a selector that requires no certain label."""


def label_entries(role: ClusterRole) -> list[str]:
    """Return the entries of a role: each of its labels, with and without its value."""
    labels = labels_of(role)
    return [*labels, *(f"{key}={value}" for key, value in labels.items())]


def selector_entries(selector: Selector) -> list[str]:
    """Return entries of which each role that a selector selects has at least one."""
    if selector.exact:
        key, value = selector.exact[0]
        return [f"{key}={value}"]
    for each in selector.requirements:
        if each.operator == "In":
            return [f"{each.key}={value}" for value in sorted(each.values)]
        if each.operator == "Exists":
            return [each.key]
    return [ANY]


def _wanted(role: ClusterRole) -> Iterable[str]:
    try:
        selectors = selectors_of(role)
    except SelectorError:
        return ()
    return {entry for each in selectors for entry in selector_entries(each)}


def _has_same_selectors(old: ClusterRole, new: ClusterRole) -> bool:
    return old.aggregation_rule == new.aggregation_rule


BY_LABEL: Final = Index("label", label_entries)
"""Roles by each of their labels."""

BY_WANTED_LABEL: Final = Index("wantedLabel", _wanted, _has_same_selectors)
"""Aggregated roles by the labels that their selectors require."""
