"""The kinds that a policy matches (typesToCheck of typechecking.go)."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, NamedTuple

from controller_manager.api.admissionregistration.v1 import (
    ResourceRule,
    ValidatingAdmissionPolicy,
)
from controller_manager.client.discovery.resources import ServedResource

_MAX_KINDS: Final = 10
"""The largest number of kinds of one rule that are checked."""


class GroupVersionKind(NamedTuple):
    """A kind in a version of its group."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        """Return the text at the start of warnings."""
        return f"{self.group}/{self.version}, Kind={self.kind}"


def kinds_to_check(
    policy: ValidatingAdmissionPolicy, served: Iterable[ServedResource]
) -> list[GroupVersionKind]:
    """Return the kinds that a policy matches by name, in order.

    Rules for any group or any version do not count. Once a rule has ten kinds, the
    following rules do not count, either.
    """
    served = list(served)
    match = policy.spec.match_constraints
    found: set[GroupVersionKind] = set()
    for rule in (match.resource_rules if match is not None else None) or ():
        of_rule = [kind for each in _named(rule) for kind in _kinds(each, served)]
        found.update(of_rule[:_MAX_KINDS])
        if len(of_rule) >= _MAX_KINDS:
            break
    return sorted(found)


def params_kind(policy: ValidatingAdmissionPolicy) -> GroupVersionKind | None:
    """Return the kind of a policy's parameters, `None` if it has none."""
    kind = policy.spec.param_kind
    if kind is None:
        return None
    group, _, version = kind.api_version.rpartition("/")
    return GroupVersionKind(group, version, kind.kind)


def is_served(kind: GroupVersionKind, served: Iterable[ServedResource]) -> bool:
    """Tell whether the API server serves a kind."""
    return any((each.group, each.version, each.kind) == kind for each in served)


def _named(rule: ResourceRule) -> Iterable[tuple[str, str, str]]:
    """Yield the group, version and name of each resource that a rule names."""
    groups, versions = rule.api_groups or (), rule.api_versions or ()
    if any("*" in each for each in (*groups, *versions)):
        return ()
    resources = [each for each in rule.resources or () if not {"*", "/"} & {*each}]
    return product(sorted(groups), sorted(versions), sorted(resources))


def _kinds(
    named: tuple[str, str, str], served: Sequence[ServedResource]
) -> list[GroupVersionKind]:
    """Return the kinds of a resource.

    As in upstream's mapper, the core group stands for any group: ``events`` in ``v1``
    are also those of events.k8s.io.
    """
    group, version, plural = named
    return [
        GroupVersionKind(each.group, each.version, each.kind)
        for each in served
        if each.version == version
        and each.plural == plural
        and group in ("", each.group)
    ]
