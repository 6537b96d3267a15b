"""Policies with their bindings and parameters (policy/generic/policy_dispatcher.go)."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import LabelSelector, compile_selector
from controller_manager.devcluster.admission.matching import Kinds, Matcher
from controller_manager.devcluster.server.apimachinery.statuses import Refusal
from controller_manager.devcluster.server.rest.admission import Write
from controller_manager.devcluster.server.rest.kind import Kind, in_version
from controller_manager.devcluster.server.storage.storage import (
    Collection,
    Storage,
    Stored,
)

_NO_PARAMS = "no params found for policy binding with `Deny` parameterNotFoundAction"
_NEEDS_NAMESPACE = (
    "cannot use namespaced paramRef in policy binding that matches cluster-scoped "
    "resources"
)
_NO_NAMESPACE = (
    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
)


class Invocation(Struct, frozen=True):
    """A policy that matches a write, with a binding and with one parameter.

    `problem` says why it cannot be evaluated, "" if it can. A `binding` is `None` if
    the problem is that of the policy.
    """

    policy: JSON
    binding: JSON | None
    kind: Kind
    params: JSON | None = None
    problem: str = ""

    @property
    def names(self) -> tuple[str, str]:
        """The names of the policy and the binding; "" without one."""
        binding = self.binding["metadata"]["name"] if self.binding else ""
        return self.policy["metadata"]["name"], binding

    @property
    def fails_closed(self) -> bool:
        """True if the write is refused when the policy cannot be evaluated."""
        return bool(self.policy["spec"].get("failurePolicy", "Fail") == "Fail")


class _ParamsError(Exception):
    """Parameters cannot be found; the message is upstream's."""


class Policies:
    """The policies of one kind, and their bindings."""

    def __init__(
        self, policies: Collection, bindings: Collection, storage: Storage, kinds: Kinds
    ) -> None:
        self.matcher = Matcher(storage, kinds)
        self._policies = policies
        self._bindings = bindings
        self._storage = storage
        self._kinds = kinds

    @property
    def are_bound(self) -> bool:
        """True if there are policies and bindings."""
        return len(self._bindings) > 0 and len(self._policies) > 0

    def invocations(self, write: Write) -> Iterator[Invocation]:
        """Yield the policies to evaluate for a write, sorted by name."""
        if not self.are_bound:
            return
        bound: dict[str, list[JSON]] = {}
        for each in sorted(self._bindings, key=_name):
            bound.setdefault(each.obj["spec"]["policyName"], []).append(each.obj)
        for each in sorted(self._policies, key=_name):
            if bindings := bound.get(_name(each)):
                yield from self._of_policy(each.obj, bindings, write)

    def _of_policy(
        self, policy: JSON, bindings: Sequence[JSON], write: Write
    ) -> Iterator[Invocation]:
        match = policy["spec"]["matchConstraints"]
        try:
            kind = self.matcher.matched(write, match, match.get("resourceRules") or ())
        except Refusal as error:
            problem = f"failed to configure policy: {error.message}"
            yield Invocation(policy, None, write.requested, problem=problem)
            return
        if kind is None:
            return
        params_kind = policy["spec"].get("paramKind")
        found = self._kind_of(params_kind) if params_kind else None
        if params_kind and found is None:
            what = _shown(params_kind)
            problem = (
                "failed to configure policy: failed to find resource referenced by "
                f"paramKind: '{what}'"
            )
            yield Invocation(policy, None, kind, problem=problem)
            return
        for binding in bindings:
            yield from self._of_binding(policy, binding, write, kind, found)

    def _of_binding(
        self, policy: JSON, binding: JSON, write: Write, kind: Kind, params: Kind | None
    ) -> Iterator[Invocation]:
        match = binding["spec"].get("matchResources") or {}
        rules = match.get("resourceRules") or None
        try:
            if self.matcher.matched(write, match, rules) is None:
                return
            found = self._params(binding["spec"].get("paramRef"), params, write)
        except (_ParamsError, Refusal) as error:
            problem = f"failed to configure binding: {error}"
            yield Invocation(policy, binding, kind, problem=problem)
            return
        for each in found:
            yield Invocation(policy, binding, kind, each)

    def _kind_of(self, wanted: JSON) -> Kind | None:
        return next(
            (
                each
                for each in self._kinds()
                if (each.api_version, each.kind)
                == (wanted["apiVersion"], wanted["kind"])
                and each.is_stored
            ),
            None,
        )

    def _params(
        self, reference: JSON | None, kind: Kind | None, write: Write
    ) -> list[JSON | None]:
        """Return the parameters of a binding (CollectParams); raises _ParamsError."""
        if kind is None or reference is None:
            return [None]
        namespace = reference.get("namespace", "")
        if namespace and not kind.namespaced:
            raise _ParamsError(_NO_NAMESPACE)
        if kind.namespaced and not (namespace := namespace or write.namespace):
            raise _ParamsError(_NEEDS_NAMESPACE)
        found = [*self._objects(reference, kind, namespace)]
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            raise _ParamsError(_NO_PARAMS)
        return [_decoded(in_version(kind, each).obj) for each in found]

    def _objects(self, reference: JSON, kind: Kind, namespace: str) -> Iterator[Stored]:
        collection = self._storage.collection(kind.stored.resource)
        if name := reference.get("name"):
            stored = collection.get((namespace, name))
            if stored is not None:
                yield stored
            return
        typed = msgspec.convert(reference.get("selector") or {}, LabelSelector)
        selector = compile_selector(typed)
        for each in collection:
            metadata = each.obj["metadata"]
            labels = metadata.get("labels") or {}
            if metadata.get("namespace", "") == namespace and selector.matches(labels):
                yield each


def _name(stored: Stored) -> str:
    return str(stored.obj["metadata"]["name"])


def _decoded(obj: JSON) -> JSON:
    found: JSON = msgspec.json.decode(msgspec.json.encode(obj))
    return found


def _shown(kind: JSON) -> str:
    """Return a kind as Go prints a GroupVersionKind."""
    group, _, version = kind["apiVersion"].rpartition("/")
    return f"{group}/{version}, Kind={kind['kind']}"
