"""RBAC: what rules permit, the bindings of users, and the authorizer.

Upstream: pkg/apis/rbac/v1/evaluation_helpers.go, component-helpers/auth/rbac/validation
and pkg/registry/rbac/validation/policy_compact.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Any, ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver import security
from controller_manager.devcluster.scheme.statuses import shown
from controller_manager.devcluster.storage import Change, Key, Storage, Watcher

# Rules of roles: checks that they permit a request, or cover other rules.

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


def permits(rule: Rule, attributes: security.Attributes) -> bool:
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


def _permits_resource(allowed: Sequence[str], attributes: security.Attributes) -> bool:
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
    groups, resources, names, paths = (
        len(rule.get(field) or ())
        for field in ("apiGroups", "resources", "resourceNames", _PATHS)
    )
    verbs = len(rule.get("verbs") or ())
    return verbs * (groups * resources * max(names, 1) + paths)


def _covers_whole(held: Rule, rule: Rule) -> bool:
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


# Bindings by subject, to find those of a user without a look at all bindings.

_Subject = tuple[str, str]
"""``User`` or ``Group``, and its name; a service account counts as a user."""

GROUP: Final = "rbac.authorization.k8s.io"


class BindingIndex:
    """The bindings of one resource, always as the storage has them.

    A query first reads the new changes of the storage, so the index costs nothing while
    bindings do not change.
    """

    def __init__(self, storage: Storage, plural: str) -> None:
        self._storage = storage
        self._resource = f"{plural}.{GROUP}"
        self._by_subject: dict[tuple[str, _Subject], dict[Key, JSON]] = {}
        self._watcher: Watcher | None = None

    def of(self, user: security.User, namespace: str) -> Iterator[JSON]:
        """Yield the bindings of a user in a namespace, "" for cluster role bindings."""
        self._update()
        found: dict[Key, JSON] = {}
        for subject in (
            ("User", user.name),
            *(("Group", each) for each in user.groups),
        ):
            found |= self._by_subject.get((namespace, subject), {})
        yield from found.values()

    def _update(self) -> None:
        """Take the changes since the last time."""
        if self._watcher is None:
            self._read_all()
            return
        for change in self._watcher.take():
            self._apply(change)

    def _read_all(self) -> None:
        collection = self._storage.collection(self._resource)
        self._watcher = collection.watch(collection.version)
        self._by_subject.clear()
        for key, stored in collection.snapshot().items():
            self._add(key, stored.obj)

    def _apply(self, change: Change) -> None:
        if change.before is not None:
            for entry in _entries(change.key, change.before.obj):
                found = self._by_subject.get(entry, {})
                found.pop(change.key, None)
                if not found:
                    self._by_subject.pop(entry, None)
        if change.type != "DELETED":
            self._add(change.key, change.after.obj)

    def _add(self, key: Key, binding: JSON) -> None:
        for entry in _entries(key, binding):
            self._by_subject.setdefault(entry, {})[key] = binding


def _entries(key: Key, binding: JSON) -> Iterator[tuple[str, _Subject]]:
    namespace = key[0]
    for subject in binding.get("subjects") or ():
        if found := _as_user_or_group(subject, namespace):
            yield namespace, found


def _as_user_or_group(subject: JSON, namespace: str) -> _Subject | None:
    """Return a subject; an account without a namespace is of the binding's."""
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind in ("User", "Group"):
        return kind, name
    place = subject.get("namespace") or namespace
    if kind == "ServiceAccount" and place:
        return "User", f"system:serviceaccount:{place}:{name}"
    return None


def applying_subject(binding: JSON, user: security.User, namespace: str) -> JSON:
    """Return the first subject that is the user or a group of the user."""
    for subject in binding.get("subjects") or ():
        found = _as_user_or_group(subject, namespace)
        if found == ("User", user.name) or (
            found is not None and found[0] == "Group" and found[1] in user.groups
        ):
            result: JSON = subject
            return result
    return {}


# RBAC: authorizes requests by the stored roles and bindings.

_PLURALS: Final = {"Role": "roles", "ClusterRole": "clusterroles"}


class RoleNotFoundError(Exception):
    """A binding names a role that does not exist, or an unknown kind of role."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name}")
        self.kind = kind
        self.name = name

    def message(self, *, plural: bool) -> str:
        """Return the message of listers, or with `plural` that of the storage."""
        if self.kind not in _PLURALS:
            return f'unsupported role reference kind: "{self.kind}"'
        resource = _PLURALS[self.kind] if plural else self.kind.lower()
        return f'{resource}.{GROUP} "{self.name}" not found'


class RBACAuthorizer(security.Authorizer):
    """Decides by roles; members of system:masters may do everything."""

    enforced: ClassVar = True

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._cluster = BindingIndex(storage, "clusterrolebindings")
        self._namespaced = BindingIndex(storage, "rolebindings")

    def decide(
        self, user: security.User, attributes: security.Attributes
    ) -> security.Decision:
        """Decide whether `user` may send a request; the reason names the binding."""
        if security.MASTERS in user.groups:
            return security.Decision(is_allowed=True)
        errors: list[str] = []
        for binding, rules in self._bound(user, attributes.namespace, errors):
            if any(permits(rule, attributes) for rule in rules):
                return security.Decision(is_allowed=True, reason=_reason(binding, user))
        reason = f"RBAC: {security.aggregate(errors)}" if errors else ""
        return security.Decision(is_allowed=False, reason=reason)

    def rules_for(self, user: security.User, namespace: str) -> security.Rules:
        """Return the rules of all roles that `user` is bound to."""
        rules: list[JSON] = []
        errors: list[str] = []
        for _, found in self._bound(user, namespace, errors):
            rules += found
        return security.Rules(rules, errors)

    def rules_of(self, reference: JSON, namespace: str) -> Sequence[JSON]:
        """Return the rules of the role that a binding in `namespace` refers to.

        Raises RoleNotFoundError.
        """
        kind, name = reference.get("kind", ""), reference.get("name", "")
        place = namespace if kind == "Role" else ""
        if kind not in _PLURALS:
            raise RoleNotFoundError(kind, name)
        roles = self._storage.collection(f"{_PLURALS[kind]}.{GROUP}")
        stored = roles.get((place, name))
        if stored is None:
            raise RoleNotFoundError(kind, name)
        return stored.obj.get("rules") or ()

    def _bound(
        self, user: security.User, namespace: str, errors: list[str]
    ) -> Iterator[tuple[JSON, Sequence[JSON]]]:
        """Yield the bindings of a user with their rules; add errors of the others."""
        bindings = self._cluster.of(user, "")
        if namespace:
            bindings = chain(bindings, self._namespaced.of(user, namespace))
        for binding in bindings:
            place = binding["metadata"].get("namespace", "")
            try:
                rules = self.rules_of(binding.get("roleRef") or {}, place)
            except RoleNotFoundError as error:
                errors.append(error.message(plural=False))
                continue
            yield binding, rules


def _reason(binding: JSON, user: security.User) -> str:
    """Return the reason: the binding, its role, and the subject."""
    metadata, reference = binding["metadata"], binding["roleRef"]
    namespace = metadata.get("namespace", "")
    subject = applying_subject(binding, user, namespace)
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    place = f"/{namespace}" if namespace else ""
    bound = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        bound = f"{bound}/{subject.get('namespace') or namespace}"
    return (
        f'RBAC: allowed by {kind} "{metadata["name"]}{place}" of '
        f'{reference["kind"]} "{reference["name"]}" to '
        f'{subject.get("kind", "")} "{bound}"'
    )
