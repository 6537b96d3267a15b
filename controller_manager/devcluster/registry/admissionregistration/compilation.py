"""The types and errors of CEL expressions (pkg/admission/plugin/cel/compile.go).

The API server compiles expressions of policies and match conditions when they are
stored, with these variables.
"""

from collections.abc import Mapping
from typing import Final

from controller_manager.cel import syntax
from controller_manager.cel.checker import check
from controller_manager.cel.types import (
    BOOL,
    DYN,
    INT,
    STRING,
    ListOf,
    MapOf,
    Scalar,
    Type,
    object_of,
)
from controller_manager.devcluster.registry.apiextensions.schemas.rules import (
    program_of,
)

_STRINGS: Final = ListOf(STRING)
_LABELS: Final = MapOf(STRING)
_KIND: Final = object_of({"group": STRING, "version": STRING, "kind": STRING})
_RESOURCE: Final = object_of({"group": STRING, "version": STRING, "resource": STRING})
_USER: Final = object_of(
    {
        "username": STRING,
        "uid": STRING,
        "groups": _STRINGS,
        "extra": MapOf(_STRINGS),
    }
)
_REQUEST: Final = object_of(
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    }
)
_NAMESPACE: Final = object_of(
    {
        "metadata": object_of(
            {
                "name": STRING,
                "generateName": STRING,
                "namespace": STRING,
                "labels": _LABELS,
                "annotations": _LABELS,
                "UID": STRING,
                "creationTimestamp": DYN,
                "deletionGracePeriodSeconds": INT,
                "deletionTimestamp": DYN,
                "generation": INT,
                "resourceVersion": STRING,
                "finalizers": _STRINGS,
            }
        ),
        "spec": object_of({"finalizers": _STRINGS}),
        "status": object_of({"conditions": DYN, "phase": STRING}),
    }
)
_ALWAYS: Final[Mapping[str, Type]] = {
    "object": DYN,
    "oldObject": DYN,
    "request": _REQUEST,
    "namespaceObject": _NAMESPACE,
}
_UNTYPED: Final = frozenset(("object", "oldObject", "params"))


def declared(
    *,
    params: bool,
    authorizer: bool = True,
    variables: Mapping[str, Type] | None = None,
    patches: bool = False,
) -> Mapping[str, Type]:
    """Return the variables that an expression may use, and their types.

    `variables` are those of a policy, `None` outside policies. With `patches`, the
    expression may create objects and JSON patches.
    """
    names = dict(_ALWAYS)
    if params:
        names["params"] = DYN
    if authorizer:
        names["authorizer"] = DYN
    if variables is not None:
        names["variables"] = object_of(dict(variables))
    if patches:
        names |= dict.fromkeys(("Object", "JSONPatch"), DYN)
    return names


def type_of(expression: str, names: Mapping[str, Type]) -> Type:
    """Return the type of an expression, "" if it is unknown or has errors."""
    try:
        return check(program_of(expression).node, names).type
    except syntax.SyntaxProblem:
        return DYN


def problem_of(expression: str, names: Mapping[str, Type], *wanted: str) -> str:
    """Return why an expression cannot be compiled, "" if it can.

    `wanted` are the types that its value may have; an empty set allows all types.
    """
    try:
        program = program_of(expression)
    except syntax.SyntaxProblem as error:
        return f"compilation failed: {error}"
    checked = check(program.node, names)
    problems = {*program.problems(frozenset(names)), *checked.problems}
    if problems:
        return f"compilation failed: {syntax.text_of(expression, sorted(problems))}"
    found = _shown_type(program.node, checked.type)
    if not wanted or not found or found in wanted:
        return ""
    if len(wanted) == 1:
        return f"must evaluate to {wanted[0]} but got {found}"
    return f"must evaluate to one of [{' '.join(wanted)}] but got {found}"


def _shown_type(node: syntax.Node, found: Type) -> str:
    """Return the type of a node as messages show it, "" if it is not known."""
    if isinstance(found, Scalar):
        return found.name
    if isinstance(node, syntax.Literal) and node.type == "null_type":
        return "null_type"
    if isinstance(node, syntax.Collection):
        return _shown_collection(node)
    if isinstance(
        node, syntax.Selection | syntax.Indexing | syntax.Identifier
    ) and _is_untyped(node):
        return "dyn"
    return ""


def _shown_collection(node: syntax.Collection) -> str:
    """Return the type of a message, or of a list whose items are messages."""
    if node.kind == "message":
        return node.type
    if node.kind == "map":
        return "map"
    types = {
        each.type
        if isinstance(each, syntax.Collection) and each.kind == "message"
        else ""
        for each in node.parts
    }
    return f"list({types.pop()})" if len(types) == 1 and "" not in types else ""


def _is_untyped(node: syntax.Node) -> bool:
    """Tell whether a node is a part of an object, of which the compiler knows nothing.

    Optional selections are left out: their type is an optional one.
    """
    while isinstance(node, syntax.Selection | syntax.Indexing):
        if node.is_optional:
            return False
        node = node.operand
    return isinstance(node, syntax.Identifier) and node.name in _UNTYPED
