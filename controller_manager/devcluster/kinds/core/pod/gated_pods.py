"""The nodes that a pod with scheduling gates allows; an update may only narrow them.

Upstream: validateNodeSelectorMutation and validateNodeAffinityMutation in
pkg/apis/core/validation.
"""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"


def validate_narrowing(old: JSON, new: JSON) -> Iterator[Cause]:
    """Yield the changes of a gated pod's spec that allow other nodes than before."""
    before, after = (each.get("nodeSelector") or {} for each in (old, new))
    if not before.items() <= after.items():
        detail = (
            "only additions to spec.nodeSelector are allowed (no mutations or "
            "deletions)"
        )
        yield invalid("spec.nodeSelector", shown(after), detail)
    terms, changed = _terms(old), _terms(new)
    if terms and len(terms) != len(changed):
        detail = (
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        )
        found = [_in_go(each) for each in changed] or None
        yield invalid(_TERMS, shown(found), detail)
        return
    for number, term in enumerate(terms):
        if not _only_adds(term, changed[number]):
            detail = "only additions are allowed (no mutations or deletions)"
            yield invalid(f"{_TERMS}[{number}]", shown(_in_go(changed[number])), detail)


def without_node_choice(spec: JSON) -> JSON:
    """Return a spec without node selector and node affinity."""
    rest = {key: value for key, value in spec.items() if key != "nodeSelector"}
    affinity = dict(rest.pop("affinity", None) or {})
    affinity.pop("nodeAffinity", None)
    return {**rest, "affinity": affinity} if affinity else rest


def _terms(spec: JSON) -> list[JSON]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return list((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ())


def _only_adds(old: JSON, new: JSON) -> bool:
    """Tell whether a term has the old requirements, and new ones only after them.

    A term without requirements matches no node, so it stays as it is.
    """
    fields = ("matchExpressions", "matchFields")
    lists = [(old.get(name) or [], new.get(name) or []) for name in fields]
    if not any(before for before, _ in lists):
        return not any(after for _, after in lists)
    return all(after[: len(before)] == before for before, after in lists)


def _in_go(term: JSON) -> JSON:
    """Return a term with the names of its fields in Go, as upstream shows it."""

    def requirements(name: str) -> list[JSON] | None:
        return [
            {
                "Key": each["key"],
                "Operator": each["operator"],
                "Values": each.get("values"),
            }
            for each in term.get(name) or ()
        ] or None

    return {
        "MatchExpressions": requirements("matchExpressions"),
        "MatchFields": requirements("matchFields"),
    }
