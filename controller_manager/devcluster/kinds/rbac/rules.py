"""Rules of roles: checks that they permit a request, or cover other rules.

Upstream: pkg/apis/rbac/v1/evaluation_helpers.go, component-helpers/auth/rbac/validation
and pkg/registry/rbac/validation/policy_compact.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

from controller_manager.devcluster.scheme.statuses import shown
from controller_manager.devcluster.server.security.authorization import Attributes

Rule = Mapping[str, Any]

_PATHS: Final = "nonResourceURLs"
_FIELDS: Final = (
    ("apiGroups", "APIGroups"),
    ("resources", "Resources"),
    ("nonResourceURLs", "NonResourceURLs"),
    ("resourceNames", "ResourceNames"),
    ("verbs", "Verbs"),
)
"""The fields of a rule, and their names in messages."""

_MOST_PARTS: Final = 50_000
"""The most parts to compare: a role of a few kilobytes may have billions."""


def permits(rule: Rule, attributes: Attributes) -> bool:
    """Tell whether a rule permits the request of a user."""
    if not _among(attributes.verb, rule.get("verbs")):
        return False
    if attributes.path:
        return any(
            pattern == "*" or _covers_path(pattern, attributes.path)
            for pattern in rule.get("nonResourceURLs") or ()
        )
    names = rule.get("resourceNames")
    return (
        _among(attributes.group, rule.get("apiGroups"))
        and _permits_resource(rule.get("resources") or (), attributes)
        and (not names or attributes.name in names)
    )


def _permits_resource(allowed: Sequence[str], attributes: Attributes) -> bool:
    if _among(attributes.full_resource, allowed):
        return True
    return bool(attributes.subresource) and f"*/{attributes.subresource}" in allowed


def _among(value: str, allowed: Sequence[str] | None) -> bool:
    return allowed is not None and ("*" in allowed or value in allowed)


def _covers_path(pattern: str, path: str) -> bool:
    if pattern == path:
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def missing(held: Iterable[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return the parts of the `wanted` rules that no `held` rule covers.

    A part has one verb, and one resource with at most one name, or one path. Of rules
    with more parts than `_MOST_PARTS` together, the last are not broken down: such a
    rule must be covered by one held rule, or it is missing as a whole.
    """
    candidates, room = _Candidates(held), _MOST_PARTS
    found: list[Rule] = []
    for rule in wanted:
        count = _count(rule)
        room -= count
        if room < 0:
            room += count
            if not any(_covers_whole(each, rule) for each in candidates.all):
                found.append(rule)
            continue
        found += [
            part
            for part in _parts(rule)
            if not any(_covers(each, part) for each in candidates.of(part))
        ]
    return found


def _count(rule: Rule) -> int:
    """Return the number of parts of a rule."""
    groups, resources, names, paths = (
        len(rule.get(field) or ())
        for field in ("apiGroups", "resources", "resourceNames", _PATHS)
    )
    verbs = len(rule.get("verbs") or ())
    return verbs * (groups * resources * max(names, 1) + paths)


def _covers_whole(held: Rule, rule: Rule) -> bool:
    """Tell whether a rule covers another one with all its parts."""

    def among(field: str) -> bool:
        return all(_among(each, held.get(field)) for each in rule.get(field) or ())

    names = held.get("resourceNames")
    return all(
        among(field) for field in ("verbs", "apiGroups", "resources", _PATHS)
    ) and (not names or set(rule.get("resourceNames") or ("",)) <= set(names))


class _Candidates:
    """Held rules by verb, so that each part is compared with few of them."""

    def __init__(self, held: Iterable[Rule]) -> None:
        self.all = list(held)
        self._by_verb: dict[str, list[Rule]] = {}
        for rule in self.all:
            for verb in dict.fromkeys(rule.get("verbs") or ()):
                self._by_verb.setdefault(verb, []).append(rule)

    def of(self, part: Rule) -> Iterator[Rule]:
        """Yield the rules with the verb of a part."""
        yield from self._by_verb.get("*", ())
        if part["verbs"] != ["*"]:
            yield from self._by_verb.get(part["verbs"][0], ())


def _parts(rule: Rule) -> Iterator[Rule]:
    """Break a rule down into parts, in upstream's order."""
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    verbs, names = rule.get("verbs") or (), rule.get("resourceNames") or ()
    for group, resource, verb in product(groups, resources, verbs):
        part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        if not names:
            yield part
        for name in names:
            yield {**part, "resourceNames": [name]}
    for path, verb in product(rule.get(_PATHS) or (), verbs):
        yield {_PATHS: [path], "verbs": [verb]}


def _covers(held: Rule, part: Rule) -> bool:
    """Tell whether a rule covers a part; the verb has been compared."""
    names = held.get("resourceNames")
    if _PATHS in part:
        # A rule with resource names covers no part without any, as upstream has it.
        return not names and any(
            _covers_path(each, part[_PATHS][0]) for each in held.get(_PATHS) or ()
        )
    wanted = part.get("resourceNames")
    return (
        _among(part["apiGroups"][0], held.get("apiGroups"))
        and _covers_resource(part["resources"][0], held.get("resources") or ())
        and (not names or (wanted is not None and wanted[0] in names))
    )


def _covers_resource(resource: str, held: Sequence[str]) -> bool:
    if _among(resource, held):
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in held


def compact(rules: Iterable[Rule]) -> list[Rule]:
    """Join the verbs of rules for one resource of one group."""
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    others: list[Rule] = []
    for rule in rules:
        groups: Sequence[str] = rule.get("apiGroups") or ()
        resources: Sequence[str] = rule.get("resources") or ()
        special = rule.get("resourceNames") or rule.get(_PATHS)
        if special or len(groups) != 1 or len(resources) != 1:
            others.append(rule)
        elif found := joined.get((groups[0], resources[0])):
            found["verbs"] = [*found["verbs"], *(rule.get("verbs") or ())]
        else:
            joined[groups[0], resources[0]] = dict(rule)
    return [*others, *joined.values()]


def description(rule: Rule) -> str:
    """Return a rule as messages about missing permissions show it."""
    parts = [
        f"{name}:{quoted(rule[field])}" for field, name in _FIELDS if rule.get(field)
    ]
    return f"{{{', '.join(parts)}}}"


def quoted(texts: Iterable[str]) -> str:
    """Return texts as Go's ``%q`` prints a slice of them."""
    return f"[{' '.join(shown(each) for each in texts)}]"
