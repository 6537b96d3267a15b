"""The conditions of a terminating namespace (status_condition_utils.go)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from controller_manager.api.core.v1 import NamespaceCondition
from controller_manager.client.discovery.resources import Discovery

DISCOVERY_FAILURE: Final = "NamespaceDeletionDiscoveryFailure"
PARSING_FAILURE: Final = "NamespaceDeletionGroupVersionParsingFailure"
CONTENT_FAILURE: Final = "NamespaceDeletionContentFailure"
CONTENT_REMAINING: Final = "NamespaceContentRemaining"
FINALIZERS_REMAINING: Final = "NamespaceFinalizersRemaining"

_NO_PROBLEM: Final = {
    DISCOVERY_FAILURE: (
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    PARSING_FAILURE: (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    CONTENT_FAILURE: (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    CONTENT_REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS_REMAINING: (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


@dataclass(slots=True)
class Findings:
    """The results of one attempt to empty a namespace.

    `remaining` counts objects by (plural, group), `finalizers` counts them by
    finalizer; `estimate` is the seconds until fewer objects may remain.
    """

    discovery_problem: str = ""
    parsing_problem: str = ""
    failures: list[Exception] = field(default_factory=list)
    remaining: Counter[tuple[str, str]] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    estimate: int = 0

    @property
    def problems(self) -> list[str]:
        """All problems of the attempt."""
        found = (self.discovery_problem, self.parsing_problem, *map(str, self.failures))
        return [each for each in found if each]


def discovery_problem(discovery: Discovery) -> str:
    """Return the message about groups that could not be discovered, empty if none."""
    if not discovery.failures:
        return ""
    return (
        f"Discovery failed for some groups, {len(discovery.failures)} failing: "
        f"{discovery.problem()}"
    )


def updated_conditions(
    present: Sequence[NamespaceCondition], findings: Findings, now: str
) -> tuple[NamespaceCondition, ...]:
    """Return the conditions after an attempt, equal to `present` if nothing changed.

    A condition with a new reason or message but the same status keeps its transition
    time.
    """
    bad = _problem_conditions(findings)
    conditions = {each.type: each for each in present}
    for kind, well in _NO_PROBLEM.items():
        status = "True" if kind in bad else "False"
        reason, message = bad.get(kind, well)
        old = conditions.get(kind)
        since = now
        if old is not None and old.status == status:
            since = old.last_transition_time or now
        conditions[kind] = NamespaceCondition(
            type=kind,
            status=status,
            last_transition_time=since,
            reason=reason,
            message=message,
        )
    return tuple(conditions.values())


def _problem_conditions(findings: Findings) -> dict[str, tuple[str, str]]:
    bad: dict[str, tuple[str, str]] = {}
    if findings.discovery_problem:
        bad[DISCOVERY_FAILURE] = ("DiscoveryFailed", findings.discovery_problem)
    if findings.parsing_problem:
        bad[PARSING_FAILURE] = ("GroupVersionParsingFailed", findings.parsing_problem)
    if failures := sorted(map(str, findings.failures)):
        message = f"Failed to delete all resource types, {len(failures)} remaining: "
        message += ", ".join(failures)
        bad[CONTENT_FAILURE] = ("ContentDeletionFailed", message)
    if findings.remaining:
        each = sorted(
            f"{plural}.{group} has {count} resource instances"
            for (plural, group), count in findings.remaining.items()
        )
        bad[CONTENT_REMAINING] = (
            "SomeResourcesRemain",
            f"Some resources are remaining: {', '.join(each)}",
        )
    if findings.finalizers:
        each = sorted(
            f"{finalizer} in {count} resource instances"
            for finalizer, count in findings.finalizers.items()
        )
        message = "Some content in the namespace has finalizers remaining: "
        message += ", ".join(each)
        bad[FINALIZERS_REMAINING] = ("SomeFinalizersRemain", message)
    return bad
