"""The warnings about a policy (TypeChecker of typechecking.go)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from controller_manager.api.admissionregistration.v1 import (
    ValidatingAdmissionPolicySpec,
    Variable,
)
from controller_manager.control.cel.checker import check
from controller_manager.control.cel.messages import text_of
from controller_manager.control.cel.parser import parse
from controller_manager.control.cel.syntax import Node
from controller_manager.control.cel.tokens import SyntaxProblem
from controller_manager.control.cel.types import DYN, Type, object_of

_PARAMS: Final = "params"


class Kinds(NamedTuple):
    """The types of the objects that a policy matches.

    `objects` has the type of each kind, with the text at the start of its warnings.
    `params` is the type of the policy's parameters, `None` if it has none.
    """

    objects: Sequence[tuple[str, Type]]
    params: Type | None


def warnings_of(
    spec: ValidatingAdmissionPolicySpec, kinds: Kinds
) -> Iterator[dict[str, Any]]:
    """Yield the warnings about the expressions of a policy, field by field.

    An expression that cannot be parsed has no warning, since the API server could parse
    it.
    """
    scopes = [
        (text, _scope(found, kinds.params, spec.variables or ()))
        for text, found in kinds.objects
    ]
    for number, validation in enumerate(spec.validations or ()):
        field = f"spec.validations[{number}]"
        for name, expression in (
            ("expression", validation.expression),
            ("messageExpression", validation.message_expression),
        ):
            if warning := _warning(expression, scopes):
                yield {"fieldRef": f"{field}.{name}", "warning": warning}


def _scope(
    found: Type, params: Type | None, variables: Iterable[Variable]
) -> Mapping[str, Type]:
    """Return the types of the names that expressions may use for one kind."""
    names: dict[str, Type] = {"object": found, "oldObject": found}
    if params is not None:
        names[_PARAMS] = params
    known: dict[str, Type] = {}
    for each in variables:
        here = {**names, "variables": object_of(dict(known))}
        known[each.name] = _type_of(each.expression, here)
    return {**names, "variables": object_of(known)}


def _type_of(expression: str, names: Mapping[str, Type]) -> Type:
    """Return the type of a variable, `DYN` if its expression has an error."""
    node = _parsed(expression)
    if node is None:
        return DYN
    found = check(node, names, _undeclared(names))
    return DYN if found.problems else found.type


def _warning(expression: str, scopes: Iterable[tuple[str, Mapping[str, Type]]]) -> str:
    node = _parsed(expression) if expression else None
    if node is None:
        return ""
    results = ((text, check(node, names, _undeclared(names))) for text, names in scopes)
    return "\n".join(
        f"{text}: {text_of(expression, each.problems)}\n"
        for text, each in results
        if each.problems
    )


def _parsed(expression: str) -> Node | None:
    try:
        return parse(expression)
    except SyntaxProblem:
        return None


def _undeclared(names: Mapping[str, Type]) -> frozenset[str]:
    return frozenset((_PARAMS,)) - names.keys()
