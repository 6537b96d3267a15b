"""Counts of objects, and their names (pkg/quota/v1/install/registry.go)."""

from typing import Final

from .names import count_name

_OLD_NAMES: Final = {
    ("", "configmaps"): "configmaps",
    ("", "replicationcontrollers"): "replicationcontrollers",
    ("", "resourcequotas"): "resourcequotas",
    ("", "secrets"): "secrets",
}
"""The older names of counts, from before the prefix ``count/``."""

_IGNORED: Final = frozenset(
    (
        ("", "bindings"),
        ("", "componentstatuses"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
    )
)


def is_counted(group: str, plural: str) -> bool:
    """Tell whether quotas count the objects of a resource: not events and reviews."""
    return (group, plural) not in _IGNORED


def names_of_count(group: str, plural: str) -> tuple[str, ...]:
    """Return the names by which the objects of a resource are counted."""
    counted = count_name(plural, group)
    old = _OLD_NAMES.get((group, plural))
    return (counted,) if old is None else (counted, old)
