"""A write as plugins see it: its parts, rules that match it, expressions about it."""

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import LabelSelector, compile_selector
from controller_manager.cel.syntax import SyntaxProblem
from controller_manager.clock import Clock
from controller_manager.devcluster.apiserver import security
from controller_manager.devcluster.apiserver.admission import (
    Operation,
    Plugin,
    Target,
    Write,
)
from controller_manager.devcluster.apiserver.kind import Kind, in_version, to_stored
from controller_manager.devcluster.apiserver.negotiation import check_object
from controller_manager.devcluster.cel.evaluation import Budget, OutOfBudgetError
from controller_manager.devcluster.cel.kubernetes_library import Authorizer
from controller_manager.devcluster.cel.values import EvaluationError, Value
from controller_manager.devcluster.registry.apiextensions.schemas.rules import (
    program_of,
)
from controller_manager.devcluster.scheme.statuses import Refusal, forbidden, not_found
from controller_manager.devcluster.storage import Storage, Stored
from controller_manager.options.gates import FeatureGates

# Functions of plugins about a write: its parts, and the refusal.

Kinds = Callable[[], Iterable[Kind]]
"""Returns all kinds that the server has."""

REGISTRATION: Final = "admissionregistration.k8s.io"
"""The group of the objects that configure webhooks and policies."""

CREATE: Final = frozenset((Operation.CREATE,))
UPDATE: Final = frozenset((Operation.UPDATE,))
DELETE: Final = frozenset((Operation.DELETE,))

PODS: Final[frozenset[Target]] = frozenset((("", "pods", ""),))
CLAIMS: Final[frozenset[Target]] = frozenset((("", "persistentvolumeclaims", ""),))


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a server that plugins need."""

    storage: Storage
    clock: Clock
    rng: random.Random
    authorizer: security.Authorizer
    kinds: Kinds
    features: FeatureGates


class BuiltInPlugin(Plugin):
    """A plugin that needs nothing but parts of the server."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._storage = parts.storage


def rule(
    called: str,
    on: frozenset[Operation],
    *of: Target,
    changes: bool = False,
    sees_own_writes: bool = False,
) -> Callable[[Callable[[Write, Parts], None]], type[BuiltInPlugin]]:
    """Make a plugin of one function, which checks a write or `changes` its object."""

    def plugin(act: Callable[[Write, Parts], None]) -> type[BuiltInPlugin]:
        class Rule(BuiltInPlugin):
            name: ClassVar = called
            targets: ClassVar = frozenset(of)
            covers_own_writes: ClassVar = sees_own_writes
            mutates: ClassVar = on if changes else frozenset()
            validates: ClassVar = frozenset() if changes else on

            def mutate(self, write: Write) -> None:
                act(write, self._parts)

            def validate(self, write: Write) -> None:
                act(write, self._parts)

        return Rule

    return plugin


def concerns(write: Write, group: str, plural: str, subresource: str = "") -> bool:
    """Tell whether a write is to a resource, or to one of its subresources."""
    kind = write.kind
    found = (kind.group, kind.plural, write.subresource)
    return found == (group, plural, subresource)


def object_of(write: Write) -> JSON:
    """Return the new object of a write that has one."""
    assert write.obj is not None  # noqa: S101 - for DELETE alone it is None
    return write.obj


def spec_of(write: Write) -> JSON:
    """Return the spec of the new object, to be changed in place."""
    spec: JSON = object_of(write).setdefault("spec", {})
    return spec


def annotations_of(obj: JSON) -> Mapping[str, str]:
    """Return the annotations of an object."""
    found: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return found


def refused(write: Write, why: str) -> Refusal:
    """Return the refusal of a write (admission.NewForbidden)."""
    kind = write.kind
    name = write.shown_name or "Unknown"
    return forbidden(kind.group, kind.plural, name, why)


# Replaces the new object of a write by a changed object.


def take_changed(write: Write, changed: JSON, kind: Kind) -> None:
    """Make `changed`, in the version of `kind`, the new object of a write.

    It checks the types and fills in the defaults, as for an object of a client. The
    managers of the fields do not change. Raises Refusal for a wrong type.
    """
    obj = write.obj
    if obj is None or write.body_kind:
        write.obj = changed
        return
    checked, _ = check_object(changed, kind, kind.version)
    found = to_stored(kind, checked)
    if write.kind.converter:
        found = dict(in_version(write.kind, Stored(found, 0)).obj)
    elif write.kind.is_custom and "apiVersion" in obj:
        found["apiVersion"] = obj["apiVersion"]
    managers = obj["metadata"].get("managedFields")
    if managers is not None:
        found["metadata"]["managedFields"] = managers
    write.kind.apply_defaults(found)
    write.obj = found


# The two rounds of mutating plugins (webhook/mutating/reinvocationcontext.go).


class Rounds:
    """The data of a plugin's first round that its second round needs."""

    def __init__(self) -> None:
        self._asked: set[Hashable] = set()
        self._again: set[Hashable] = set()
        self._output: JSON | None = None

    @classmethod
    def of(cls, write: Write, plugin: str) -> "Rounds":
        """Return the rounds of a plugin in an attempt to write.

        If other plugins have changed the object since then, this plugin repeats all its
        webhooks or policies of the first round.
        """
        rounds: Rounds = write.notes.setdefault(plugin, cls())
        if write.is_again and rounds._output != write.obj:
            rounds._ask_again()
        return rounds

    def leaves_out(self, key: Hashable, write: Write) -> bool:
        """Tell whether this round skips a webhook or a policy."""
        return write.is_again and key not in self._again

    def note(self, key: Hashable, write: Write, *, changed: bool, policy: str) -> None:
        """Record a webhook or policy; `policy` is its reinvocationPolicy."""
        if changed:
            self._ask_again()
            write.wants_again = True
        if policy == "IfNeeded":
            self._asked.add(key)

    def end(self, write: Write) -> None:
        """End a round with the present object."""
        self._output = write.obj

    def _ask_again(self) -> None:
        self._again |= self._asked
        self._asked = set()


# Matches writes with the rules and selectors of webhooks and policies.


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
    return (kind.group, kind.version, kind.plural) == ("", "v1", "namespaces")


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


# Converts the objects of a write to the version of a webhook or a policy.


def in_requested(write: Write, kind: Kind, obj: JSON | None) -> JSON | None:
    """Return the new or the old object of a write in the version of `kind`.

    The body of a subresource with its own kind is not converted. The result is a copy:
    callers may change it.
    """
    if obj is None:
        return None
    if body := write.body_kind:
        group, version, name = body
        api_version = f"{group}/{version}" if group else version
        rest = {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}
        found = {"kind": name, "apiVersion": api_version, **rest}
    else:
        head = {"kind": write.kind.kind, "apiVersion": write.kind.api_version}
        complete = {**head, **{k: v for k, v in obj.items() if k not in head}}
        if obj.get("apiVersion") and write.kind.is_custom:
            complete["apiVersion"] = obj["apiVersion"]
        asked = kind.within(write.submission) if write.submission else kind
        found = in_version(asked, Stored(complete, 0)).obj
    decoded: JSON = msgspec.json.decode(msgspec.json.encode(found))
    return decoded


def request_of(write: Write, kind: Kind) -> JSON:
    """Return the fields of an AdmissionRequest but the uid and the objects.

    `kind` is the kind in the requested version (AdmissionRequest of
    k8s.io/api/admission/v1). Fields that Go omits when they are empty are absent.
    """
    asked, given = write.requested, write.user
    found: JSON = {
        "kind": _kind_of(write, kind),
        "resource": _resource_of(kind),
        "subResource": write.subresource,
        "requestKind": _kind_of(write, asked),
        "requestResource": _resource_of(asked),
        "requestSubResource": write.subresource,
        "name": write.name,
        "namespace": namespace_of(write),
        "operation": str(write.operation),
        "userInfo": given.as_json(),
        "dryRun": write.is_dry_run,
        "options": write.options(),
    }
    omitted = ("subResource", "requestSubResource", "name", "namespace")
    return {k: v for k, v in found.items() if v or k not in omitted}


def _kind_of(write: Write, kind: Kind) -> JSON:
    group, version, name = write.body_kind or (kind.group, kind.version, kind.kind)
    return {"group": group, "version": version, "kind": name}


def _resource_of(kind: Kind) -> JSON:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


# Evaluates expressions about a write (pkg/admission/plugin/cel).

MOST_STEPS: Final = 300_000
"""The most steps of all expressions of one policy together: about a second."""

MOST_STEPS_OF_WRITE: Final = 1_000_000
"""The most steps of all policies for one write. Upstream has no such limit."""

MOST_CONDITION_STEPS: Final = MOST_STEPS // 4
OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules "
    "will be run"
)
_NAMESPACE_METADATA: Final = (
    *("name", "generateName", "namespace", "labels", "annotations", "uid"),
    *("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp"),
    *("generation", "resourceVersion", "finalizers"),
)


class Names(Mapping[str, Value]):
    """The values of names in expressions; the first use of a name makes its value."""

    def __init__(self, makers: Mapping[str, Callable[[], Value]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        """Return the value of a name; raises EvaluationError."""
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        """Tell whether a name has a value."""
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._makers)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._makers)

    def having(self, **makers: Callable[[], Value]) -> "Names":
        """Return names with some more."""
        found = Names({**self._makers, **makers})
        found._made = {k: v for k, v in self._made.items() if k not in makers}
        return found


def names_of(
    write: Write, kind: Kind, matcher: Matcher, authorizer: security.Authorizer
) -> Names:
    """Return the values of a write for expressions, with objects of `kind`."""
    return Names(
        {
            "object": lambda: in_requested(write, kind, write.obj),
            "oldObject": lambda: in_requested(write, kind, write.old),
            "request": lambda: request_of(write, kind),
            "namespaceObject": lambda: _namespace(write, matcher),
            "authorizer": lambda: _authorizer(write, authorizer),
            "authorizer.requestResource": lambda: _asked_resource(write, authorizer),
        }
    )


def evaluated(expression: str, names: Mapping[str, Value], budget: Budget) -> Value:
    """Return the value of an expression.

    Raises EvaluationError with upstream's message, and OutOfBudgetError.
    """
    try:
        return program_of(expression).evaluate(names, budget)
    except (EvaluationError, SyntaxProblem) as error:
        text = f"expression '{expression}' resulted in error: {error}"
        raise EvaluationError(text) from None


def _namespace(write: Write, matcher: Matcher) -> JSON | None:
    if not write.namespace or is_namespace(write.kind):
        return None
    found = matcher.namespace(write.namespace)
    metadata = found["metadata"]
    return {
        "metadata": {k: metadata[k] for k in _NAMESPACE_METADATA if k in metadata},
        "spec": found.get("spec", {}),
        "status": found.get("status", {}),
    }


def _authorizer(write: Write, authorizer: security.Authorizer) -> Authorizer:
    def decide(asked: Mapping[str, str], account: tuple[str, str] | None) -> bool:
        user = security.account_user(*account, "") if account else write.user
        return authorizer.allows(user, security.Attributes(**asked))

    return Authorizer(decide)


def _asked_resource(write: Write, authorizer: security.Authorizer) -> Authorizer:
    kind = write.requested
    attributes = {
        "group": kind.group,
        "resource": kind.plural,
        "subresource": write.subresource,
        "namespace": write.namespace,
        "name": write.name,
    }
    found = _authorizer(write, authorizer)
    return Authorizer(found.decide, attributes, about="resource")


# Conditions of a webhook or a policy (webhook/matchconditions/matcher.go).


class ConditionError(Exception):
    """Conditions cannot be evaluated; the message is upstream's."""


def hold(conditions: Iterable[JSON], names: Mapping[str, Value]) -> bool:
    """Tell whether all conditions are true.

    A false condition decides, also if others have errors. Otherwise raises
    ConditionError for errors.
    """
    budget, problems = Budget(MOST_CONDITION_STEPS), list[str]()
    for each in conditions:
        try:
            if evaluated(each["expression"], names, budget) is False:
                return False
        except EvaluationError as error:
            problems.append(str(error))
        except OutOfBudgetError:
            raise ConditionError(OUT_OF_BUDGET) from None
    if len(problems) > 1:
        raise ConditionError(f"[{', '.join(dict.fromkeys(problems))}]")
    if problems:
        raise ConditionError(problems[0])
    return True
