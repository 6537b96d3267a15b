"""The admission plugin ValidatingAdmissionPolicy, and what policies share.

Upstream: pkg/admission/plugin/policy.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.api.selectors import LabelSelector, compile_selector
from controller_manager.cel.syntax import SyntaxProblem
from controller_manager.devcluster.apiserver.admission import Operation, Write
from controller_manager.devcluster.apiserver.kind import Kind, in_version
from controller_manager.devcluster.cel.evaluation import Budget, OutOfBudgetError
from controller_manager.devcluster.cel.values import (
    EvaluationError,
    Message,
    Value,
    type_of,
)
from controller_manager.devcluster.registry.apiextensions.schemas.rules import (
    program_of,
)
from controller_manager.devcluster.scheme.statuses import Refusal, forbidden
from controller_manager.devcluster.storage import Stored

from . import writes

# The variables of a policy (pkg/admission/plugin/cel/composition.go).


class Variables(dict[str, Value]):
    """The values of variables; each is evaluated once, when it is needed."""

    def __init__(
        self, variables: Sequence[JSON], names: writes.Names, budget: Budget
    ) -> None:
        """Take the variables of a policy, and the names that they may use.

        A variable may use the variables before it.
        """
        super().__init__((each["name"], None) for each in variables)
        self._expressions = {each["name"]: each["expression"] for each in variables}
        self._names = names.having(variables=lambda: self)
        self._budget = budget
        self._problems: dict[str, str] = {}
        self._known: set[str] = set()

    def __getitem__(self, name: str) -> Value:
        """Return the value of a variable; raises EvaluationError."""
        if name not in self._known:
            self._known.add(name)
            try:
                program = program_of(self._expressions[name])
                self[name] = program.evaluate(self._names, self._budget)
            except (EvaluationError, SyntaxProblem) as error:
                text = f'composited variable "{name}" fails to evaluate: {error}'
                self._problems[name] = text
        if problem := self._problems.get(name):
            raise EvaluationError(problem)
        return super().__getitem__(name)


# Values of expressions as JSON, and checks of the objects that they make.


def as_json(value: Value) -> Any:
    """Return a value as JSON; raises EvaluationError for one that has none."""
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return int(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return format_time(value)
        case timedelta():
            return f"{value.total_seconds():g}s"
        case list():
            return [as_json(each) for each in value]
        case dict():
            return {str(name): as_json(each) for name, each in value.items()}
    raise EvaluationError(f"a value of type {type(value).__name__} has no JSON")


def misnamed(value: Value, path: str = "Object") -> str:
    """Return why the type of an object is not that of its place, "" if it is.

    Upstream: CheckTypeNamesMatchFieldPathNames of k8s.io/apiserver/pkg/cel/mutation.
    The object in ``Object{spec: ...}`` must be of the type ``Object.spec``.
    """
    return next(_misnamed(value, path), "")


def _misnamed(value: Value, path: str) -> Iterator[str]:
    match value:
        case Message():
            if value.type != path:
                yield (
                    f'unexpected type name "{value.type}", expected "{path}", which '
                    "matches field name path from root Object type"
                )
            for name, each in value.items():
                yield from _misnamed(each, f"{path}.{name}")
        case dict():
            for each in value.values():
                yield from _misnamed(each, path)
        case list():
            for each in value:
                yield from _misnamed(each, path)


# Policies with their bindings and parameters (policy/generic/policy_dispatcher.go).

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

    def __init__(self, prefix: str, parts: writes.Parts) -> None:
        """Take ``mutating`` or ``validating``, with which their resources begin."""
        storage, resource = parts.storage, f"{prefix}admissionpolic"
        self._policies = storage.collection(f"{resource}ies.{writes.REGISTRATION}")
        self._bindings = storage.collection(
            f"{resource}ybindings.{writes.REGISTRATION}"
        )
        self._storage = storage
        self._kinds = parts.kinds
        self._authorizer = parts.authorizer
        self._matcher = writes.Matcher(storage, parts.kinds)

    @property
    def are_bound(self) -> bool:
        """True if there are policies and bindings."""
        return len(self._bindings) > 0 and len(self._policies) > 0

    def names(self, invocation: "Invocation", write: Write) -> Any:
        """Return the names that the expressions of a policy may use."""
        kind = invocation.kind
        names = writes.names_of(write, kind, self._matcher, self._authorizer)
        if "paramKind" in invocation.policy["spec"]:
            return names.having(params=lambda: invocation.params)
        return names

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
            kind = self._matcher.matched(write, match, match.get("resourceRules") or ())
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
            if self._matcher.matched(write, match, rules) is None:
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
        if write.submission:
            kind = kind.within(write.submission)
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


# Decides about a write by one policy (policy/validating/validator.go).

_MOST_CHARACTERS: Final = 5 << 10


class Denial(Struct, frozen=True):
    """The reason of a policy's refusal; empty if the policy cannot be evaluated."""

    message: str
    reason: str = ""


def denials(spec: JSON, names: writes.Names, total: Budget) -> Iterator[Denial]:
    """Yield why a policy with this spec refuses a write, expression by expression.

    It takes its steps from the `total` of the write, up to the limit of one policy.
    """
    try:
        if not writes.hold(spec.get("matchConditions") or (), names):
            return
    except writes.ConditionError as error:
        yield Denial(str(error))
        return
    budget = Budget(writes.MOST_STEPS, total)
    variables = Variables(spec.get("variables") or (), names, budget)
    known = names.having(variables=lambda: variables)
    try:
        for validation in spec.get("validations") or ():
            yield from _checked(validation, known, budget)
        for annotation in spec.get("auditAnnotations") or ():
            yield from _annotated(annotation, known, budget)
    except OutOfBudgetError:
        yield Denial(writes.OUT_OF_BUDGET)


def _checked(
    validation: JSON, names: Mapping[str, Value], budget: Budget
) -> Iterator[Denial]:
    try:
        if writes.evaluated(validation["expression"], names, budget) is True:
            return
    except EvaluationError as error:
        yield Denial(str(error))
        return
    yield Denial(
        _message(validation, names, budget), validation.get("reason", "Invalid")
    )


def _message(validation: JSON, names: Mapping[str, Value], budget: Budget) -> str:
    own = _own_message(validation.get("messageExpression", ""), names, budget)
    given = validation.get("message", "").strip()
    return own or given or f"failed expression: {validation['expression'].strip()}"


def _own_message(expression: str, names: Mapping[str, Value], budget: Budget) -> str:
    """Return the value of a messageExpression, "" if it is unusable."""
    if not expression:
        return ""
    try:
        found = writes.evaluated(expression, names, budget)
    except EvaluationError:
        return ""
    if not isinstance(found, str):
        return ""
    text = found.strip()
    return "" if "\n" in text or len(text) > _MOST_CHARACTERS else text


def _annotated(
    annotation: JSON, names: Mapping[str, Value], budget: Budget
) -> Iterator[Denial]:
    """Evaluate an audit annotation; only its errors have an effect."""
    expression = annotation["valueExpression"]
    try:
        found = writes.evaluated(expression, names, budget)
    except EvaluationError as error:
        yield Denial(str(error))
        return
    if not isinstance(found, str) and found is not None:
        yield Denial(
            f"valueExpression '{expression}' resulted in unsupported return type: "
            f"{type_of(found)}. Return type must be either string or null."
        )


# The admission plugin ValidatingAdmissionPolicy (policy/validating/dispatcher.go).

_CODES: Final = {"Forbidden": 403, "RequestEntityTooLarge": 413, "Unauthorized": 401}


class ValidatingAdmissionPolicy(writes.BuiltInPlugin):
    """Evaluates the policies that are bound.

    A binding with the action Deny refuses the write, one with Warn adds a warning.
    Audit has no effect, because this server has no audit log.
    """

    name: ClassVar = "ValidatingAdmissionPolicy"
    validates: ClassVar = frozenset(Operation)

    def __init__(self, parts: writes.Parts) -> None:
        super().__init__(parts)
        self._policies = Policies("validating", parts)

    def validate(self, write: Write) -> None:
        """Raise Refusal if a policy refuses the write."""
        if not self._policies.are_bound or writes.is_exempt_from_policies(write):
            return
        refusals: list[Refusal] = []
        total = Budget(writes.MOST_STEPS_OF_WRITE)
        for invocation in self._policies.invocations(write):
            policy, binding = invocation.names
            for denial in self._denials(invocation, write, total):
                actions = _actions(invocation)
                if "Deny" in actions:
                    refusals.append(_refusal(invocation, denial, write))
                if "Warn" in actions:
                    write.warn(
                        f"Validation failed for ValidatingAdmissionPolicy '{policy}' "
                        f"with binding '{binding}': {denial.message}"
                    )
        if refusals:
            raise refusals[0]

    def _denials(
        self, invocation: Invocation, write: Write, total: Budget
    ) -> Iterator[Denial]:
        """Yield why a policy refuses a write; its failurePolicy may ignore errors."""
        if invocation.problem:
            if invocation.fails_closed:
                yield Denial(invocation.problem)
            return
        names = self._policies.names(invocation, write)
        for denial in denials(invocation.policy["spec"], names, total):
            if denial.reason or invocation.fails_closed:
                yield denial


def _actions(invocation: Invocation) -> list[str]:
    """Return the actions; a wrong configuration always denies."""
    if invocation.problem or invocation.binding is None:
        return ["Deny"]
    actions: list[str] = invocation.binding["spec"].get("validationActions") or []
    return actions


def _refusal(invocation: Invocation, denial: Denial, write: Write) -> Refusal:
    policy, binding = invocation.names
    who = f"ValidatingAdmissionPolicy '{policy}'"
    if binding:
        who += f" with binding '{binding}'"
    message = f"{who} denied request: {denial.message}"
    asked, name = write.requested, write.shown_name or "Unknown"
    causes = [{"message": message}]
    found = forbidden(asked.group, asked.plural, name, message, causes)
    reason, code = ("Invalid", 422)
    if denial.reason in _CODES:
        reason, code = denial.reason, _CODES[denial.reason]
    return Refusal(code, reason, found.message, found.details)
