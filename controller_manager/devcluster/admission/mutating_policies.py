"""The admission plugin MutatingAdmissionPolicy (policy/mutating)."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, ClassVar

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver import field_type
from controller_manager.devcluster.apiserver.admission import Operation, Write
from controller_manager.devcluster.apiserver.field_manager import version_of
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.merging import merged
from controller_manager.devcluster.cel.evaluation import (
    Budget,
    OutOfBudgetError,
    size_of,
)
from controller_manager.devcluster.cel.values import EvaluationError, Message, Value
from controller_manager.devcluster.scheme import patches
from controller_manager.devcluster.scheme.statuses import Refusal, forbidden

from . import writes
from .policies import Invocation, Policies, Variables, as_json, misnamed

# Changes an object by one policy (policy/mutating/patch).

_OPERATION = ("op", "path", "from")


class MutationError(Exception):
    """A mutation cannot be carried out; the message is upstream's."""


def mutated(
    mutation: JSON, obj: JSON, kind: Kind, names: Mapping[str, Value], budget: Budget
) -> JSON:
    """Return a changed copy of an object after a mutation.

    Raises MutationError, and OutOfBudgetError.
    """
    is_patch = mutation["patchType"] == "JSONPatch"
    patch = mutation["jsonPatch" if is_patch else "applyConfiguration"]
    try:
        found = writes.evaluated(patch["expression"], names, budget)
        budget.spend(size_of(found, budget.left + 1))
        return _patched(obj, found) if is_patch else _applied(obj, found, kind)
    except EvaluationError as error:
        raise MutationError(str(error)) from None


def _patched(obj: JSON, operations: Value) -> JSON:
    if not isinstance(operations, list):
        raise MutationError(
            "type mismatch: JSONPatchType.expression should evaluate to array"
        )
    try:
        found = patches.json_patch(obj, [_operation(each) for each in operations])
    except patches.TestFailedError:
        return obj
    except patches.PatchError as error:
        raise MutationError(f"JSONPath: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
        raise MutationError("JSONPath: the patch leaves no object with metadata")
    return found


def _operation(value: Value) -> JSON:
    if not isinstance(value, Message) or value.type != "JSONPatch":
        raise MutationError(
            "type mismatch: JSONPatchType.expression should evaluate to array of "
            "JSONPatch"
        )
    found = {name: value[name] for name in _OPERATION if name in value}
    if "value" in value:
        content = value["value"]
        if isinstance(content, Message) and (why := misnamed(content, content.type)):
            raise MutationError(f"type mismatch: {why}")
        found["value"] = as_json(content)
    return found


def _applied(obj: JSON, config: Value, kind: Kind) -> JSON:
    if not isinstance(config, Message):
        raise MutationError(
            "unsupported return type from ApplyConfiguration expression: "
            f"{type(config).__name__}"
        )
    if why := misnamed(config):
        raise MutationError(f"type mismatch: {why}")
    wanted = {**as_json(config), "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    # A subresource may have a body of another kind, whose types are unknown here.
    type_ = version_of(kind).type if obj["kind"] == kind.kind else field_type.DEDUCED
    if faults := field_type.faults_of(wanted, type_):
        why = f"failed to convert patch object to typed object: {faults}"
        raise MutationError(f"error applying patch: {why}")
    if atomic := ", ".join(_atomic(wanted, type_, "")):
        raise MutationError(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic "
            f"arrays, maps or structs: {atomic}"
        )
    return merged(obj, wanted, type_)


def _atomic(value: Any, type_: field_type.FieldType, path: str) -> Iterator[str]:
    """Yield the paths of values that would be replaced as a whole (findAtomics)."""
    if isinstance(value, dict) and type_.map:
        if type_.map.is_atomic:
            yield path
        for name, each in value.items():
            if inner := type_.map.fields.get(name):
                yield from _atomic(each, inner, f"{path}.{name}")
    elif isinstance(value, list) and type_.list:
        if type_.list.is_atomic:
            yield path
        for number, each in enumerate(value):
            yield from _atomic(each, type_.list.items, f"{path}[{number}]")


# The admission plugin MutatingAdmissionPolicy (policy/mutating/dispatcher.go).


class _PolicyError(Exception):
    """A policy cannot be evaluated; `is_own` is false for wrong configuration."""

    def __init__(self, message: str, *, is_own: bool = True) -> None:
        super().__init__(message)
        self.is_own = is_own


class MutatingAdmissionPolicy(writes.BuiltInPlugin):
    """Lets the bound policies change an object, one after the other."""

    name: ClassVar = "MutatingAdmissionPolicy"
    mutates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def __init__(self, parts: writes.Parts) -> None:
        super().__init__(parts)
        self._policies = Policies("mutating", parts)

    def acts(self) -> bool:
        """Tell whether there is a policy with a binding."""
        return self._policies.are_bound

    def mutate(self, write: Write) -> None:
        """Change the object by all matching policies; raises Refusal.

        A policy with failurePolicy Fail that fails refuses the write.
        """
        if (
            not self.acts()
            or writes.is_exempt_from_policies(write)
            or write.obj is None
        ):
            return
        refusals: list[tuple[Invocation, _PolicyError]] = []
        rounds, total = (
            writes.Rounds.of(write, self.name),
            Budget(writes.MOST_STEPS_OF_WRITE),
        )
        for invocation in [*self._policies.invocations(write)]:
            try:
                self._invoke(invocation, write, rounds, total)
            except _PolicyError as problem:
                if invocation.fails_closed:
                    refusals.append((invocation, problem))
        rounds.end(write)
        if refusals:
            raise _refusal(refusals, write)

    def _invoke(
        self, invocation: Invocation, write: Write, rounds: writes.Rounds, total: Budget
    ) -> None:
        """Let one policy change the object, with one parameter; raises _PolicyError."""
        if invocation.problem:
            raise _PolicyError(invocation.problem, is_own=False)
        spec = invocation.policy["spec"]
        try:
            if not writes.hold(
                spec.get("matchConditions") or (),
                self._policies.names(invocation, write),
            ):
                return
        except writes.ConditionError as error:
            raise _PolicyError(str(error)) from None
        key = _key(invocation)
        if rounds.leaves_out(key, write):
            return
        changed = self._mutate(invocation, write, Budget(writes.MOST_STEPS, total))
        policy = spec.get("reinvocationPolicy", "Never")
        rounds.note(key, write, changed=changed, policy=policy)

    def _mutate(self, invocation: Invocation, write: Write, budget: Budget) -> bool:
        """Carry out the mutations; tell whether they change the object."""
        spec, kind = invocation.policy["spec"], invocation.kind
        is_other = False
        for mutation in spec["mutations"]:
            names = self._policies.names(invocation, write)
            variables = Variables(spec.get("variables") or (), names, budget)
            known = names.having(variables=lambda found=variables: found)
            obj = writes.in_requested(write, kind, write.obj) or {}
            try:
                changed = mutated(mutation, obj, kind, known, budget)
                if changed != obj:
                    writes.take_changed(write, changed, kind)
                    is_other = True
            except (MutationError, Refusal) as error:
                raise _PolicyError(str(error)) from None
            except OutOfBudgetError:
                raise _PolicyError(writes.OUT_OF_BUDGET) from None
        return is_other


def _key(invocation: Invocation) -> Hashable:
    metadata = (invocation.params or {}).get("metadata", {})
    params = (metadata.get("namespace", ""), metadata.get("name", ""))
    return (*invocation.names, *params)


def _refusal(problems: list[tuple[Invocation, _PolicyError]], write: Write) -> Refusal:
    texts = [_text(invocation, problem) for invocation, problem in problems]
    asked, name = write.requested, write.shown_name or "Unknown"
    causes = [{"message": each} for each in texts]
    found = forbidden(asked.group, asked.plural, name, texts[0], causes)
    reason = "Invalid" if problems[0][1].is_own else "Forbidden"
    return Refusal(found.code, reason, texts[0], found.details)


def _text(invocation: Invocation, problem: _PolicyError) -> str:
    policy, binding = invocation.names
    if binding:
        return f"policy '{policy}' with binding '{binding}' denied request: {problem}"
    return f'policy "{policy}" denied request: {problem}'
