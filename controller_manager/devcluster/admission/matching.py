"""Matches writes with the rules and selectors of webhooks and policies.

Upstream: pkg/admission/plugin/webhook/predicates and plugin/policy/matching.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import LabelSelector, compile_selector
from controller_manager.devcluster.server.apimachinery.statuses import not_found
from controller_manager.devcluster.server.rest.admission import Operation, Write
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.storage.storage import Storage

Kinds = Callable[[], Iterable[Kind]]
"""Returns all kinds that the server has."""

_NAMESPACES: Final = ("", "v1", "namespaces")
_GROUP: Final = "admissionregistration.k8s.io"
_POLICIES: Final = frozenset(
    (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    )
)
_REVIEWED: Final = ("authentication.k8s.io", "authorization.k8s.io")
_CONFIGURATIONS: Final = frozenset(
    ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
)


def is_exempt_from_policies(write: Write) -> bool:
    """Tell whether policies skip the write: those of policies and reviews.

    Otherwise an administrator could not remove a bad policy. Upstream:
    pkg/kubeapiserver/admission/exclusion.
    """
    kind = write.kind
    return _is_policy(kind) or (kind.group in _REVIEWED and not kind.is_stored)


def is_exempt(write: Write) -> bool:
    """Tell whether webhooks skip the write: those of webhooks and policies."""
    kind = write.kind
    return _is_policy(kind) or (kind.group == _GROUP and kind.plural in _CONFIGURATIONS)


def _is_policy(kind: Kind) -> bool:
    return kind.group == _GROUP and kind.plural in _POLICIES


def is_namespace(kind: Kind) -> bool:
    """Tell whether a kind is that of namespaces."""
    return (kind.group, kind.version, kind.plural) == _NAMESPACES


def namespace_of(write: Write) -> str:
    """Return the namespace of a write; that of a namespace is its own name."""
    return write.name if is_namespace(write.kind) else write.namespace


class Matcher:
    """Compares writes with rules and selectors."""

    def __init__(self, storage: Storage, kinds: Kinds) -> None:
        self._namespaces = storage.collection("namespaces")
        self._kinds = kinds

    def matched(
        self, write: Write, match: Mapping[str, Any], rules: Sequence[JSON] | None
    ) -> Kind | None:
        """Return the kind, in the version that a webhook or a policy asks for.

        `match` has the selectors and the policy, as in a webhook or in the
        ``matchConstraints`` of a policy. With `rules` `None`, it matches each kind.
        Returns `None` if it does not match. Raises Refusal if the namespace of the
        write is unknown.
        """
        if not _selects_object(match.get("objectSelector"), write):
            return None
        excluded = match.get("excludeResourceRules", ())
        policy = match.get("matchPolicy", "Equivalent")
        if excluded and self._kind_of(write, excluded, policy):
            return None
        asked = write.requested
        found = asked if rules is None else self._kind_of(write, rules, policy)
        if found is None:
            return None
        selector = match.get("namespaceSelector")
        return found if self._selects_namespace(selector, write) else None

    def namespace(self, name: str) -> JSON:
        """Return a namespace; raises Refusal 404."""
        stored = self._namespaces.get(("", name))
        if stored is None:
            raise not_found("", "namespaces", name)
        return stored.obj

    def _kind_of(self, write: Write, rules: Sequence[JSON], policy: str) -> Kind | None:
        """Return the version of the kind that a rule matches: the client's first."""
        if _fits_any(write, write.requested, rules):
            return write.requested
        if policy != "Equivalent":
            return None
        others = [*self._equivalent(write.requested)]
        for rule in rules:
            for other in others:
                if _fits_any(write, other, (rule,)):
                    return other
        return None

    def _equivalent(self, kind: Kind) -> Iterator[Kind]:
        """Yield the other versions, also those in other groups, of the same objects."""
        wanted = kind.stored
        for each in self._kinds():
            found = each.stored
            if (found.group, found.plural) != (wanted.group, wanted.plural):
                continue
            if (each.group, each.version) != (kind.group, kind.version):
                yield each

    def _selects_namespace(self, selector: JSON | None, write: Write) -> bool:
        name = namespace_of(write)
        if not selector or (not name and not is_namespace(write.kind)):
            return True
        own = write.obj if not write.subresource else None
        if is_namespace(write.kind) and own is not None:
            return _selects(selector, own)
        return _selects(selector, self.namespace(name))


def _selects_object(selector: JSON | None, write: Write) -> bool:
    """Tell whether a selector selects the old or the new object."""
    if not selector:
        return True
    return any(
        _selects(selector, each) for each in (write.obj, write.old) if each is not None
    )


def _selects(selector: JSON, obj: JSON) -> bool:
    labels = (obj.get("metadata") or {}).get("labels") or {}
    return compile_selector(msgspec.convert(selector, LabelSelector)).matches(labels)


def _fits_any(write: Write, kind: Kind, rules: Iterable[JSON]) -> bool:
    return any(_fits(write, kind, each) for each in rules)


def _fits(write: Write, kind: Kind, rule: JSON) -> bool:
    """Tell whether a rule matches a write, with the kind in one of its versions."""
    names = rule.get("resourceNames")
    return (
        _fits_scope(write, kind, rule.get("scope", "*"))
        and _is_one(rule.get("operations", ()), write.operation)
        and _is_one(rule.get("apiGroups", ()), kind.group)
        and _is_one(rule.get("apiVersions", ()), kind.version)
        and _fits_resource(write, kind, rule.get("resources", ()))
        and (not names or write.name in names)
    )


def _is_one(values: Iterable[str], wanted: str | Operation) -> bool:
    return any(each in ("*", wanted) for each in values)


def _fits_scope(write: Write, kind: Kind, scope: str) -> bool:
    if scope == "*":
        return True
    is_inside = bool(write.namespace) and not is_namespace(kind)
    return is_inside == (scope == "Namespaced")


def _fits_resource(write: Write, kind: Kind, resources: Iterable[str]) -> bool:
    for each in resources:
        plural, _, subresource = each.partition("/")
        if plural in ("*", kind.plural) and subresource in ("*", write.subresource):
            return True
    return False
