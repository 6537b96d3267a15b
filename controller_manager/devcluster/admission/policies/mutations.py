"""Changes an object by one policy (policy/mutating/patch)."""

from collections.abc import Iterator, Mapping
from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.admission.expressions import evaluated
from controller_manager.devcluster.cel.evaluation import Budget, size_of
from controller_manager.devcluster.cel.values import EvaluationError, Message, Value
from controller_manager.devcluster.server.apimachinery.json_patch import (
    PatchError,
    TestFailedError,
    json_patch,
)
from controller_manager.devcluster.server.fields.checking import faults_of
from controller_manager.devcluster.server.fields.field_type import DEDUCED, FieldType
from controller_manager.devcluster.server.fields.merging import merged
from controller_manager.devcluster.server.registry.field_owners import version_of
from controller_manager.devcluster.server.rest.kind import Kind

from .cel_json import as_json, misnamed

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
        found = evaluated(patch["expression"], names, budget)
        budget.spend(size_of(found, budget.left + 1))
        return _patched(obj, found) if is_patch else _applied(obj, found, kind)
    except EvaluationError as error:
        raise MutationError(str(error)) from None


def _patched(obj: JSON, operations: Value) -> JSON:
    """Return an object changed by a JSON patch."""
    if not isinstance(operations, list):
        raise MutationError(
            "type mismatch: JSONPatchType.expression should evaluate to array"
        )
    try:
        found = json_patch(obj, [_operation(each) for each in operations])
    except TestFailedError:
        return obj
    except PatchError as error:
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
    """Return an object to which a configuration is applied."""
    if not isinstance(config, Message):
        raise MutationError(
            "unsupported return type from ApplyConfiguration expression: "
            f"{type(config).__name__}"
        )
    if why := misnamed(config):
        raise MutationError(f"type mismatch: {why}")
    wanted = {**as_json(config), "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    # A subresource may have a body of another kind, whose types are unknown here.
    type_ = version_of(kind).type if obj["kind"] == kind.kind else DEDUCED
    if faults := faults_of(wanted, type_):
        why = f"failed to convert patch object to typed object: {faults}"
        raise MutationError(f"error applying patch: {why}")
    if atomic := ", ".join(_atomic(wanted, type_, "")):
        raise MutationError(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic "
            f"arrays, maps or structs: {atomic}"
        )
    return merged(obj, wanted, type_)


def _atomic(value: Any, type_: FieldType, path: str) -> Iterator[str]:
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
