"""Finds errors that the type checker of cel-go finds, too (checker/checker.go).

It finds fields that objects do not have, selections of fields of scalars, operators
with scalars for which they are not defined, and names that are known to be undeclared.
It says nothing of functions, nor of anything whose type it does not know.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from . import syntax
from .types import (
    DYN,
    INT,
    STRING,
    Dynamic,
    ListOf,
    MapOf,
    Object,
    Optional,
    Scalar,
    Type,
    is_defined,
    result_of,
)

_ONE_VARIABLE: Final = {
    "all": (2,),
    "exists": (2,),
    "exists_one": (2,),
    "existsOne": (2,),
    "filter": (2,),
    "map": (2, 3),
}
"""Macros with one variable, and the numbers of arguments that they take."""

_TWO_VARIABLES: Final = {
    "all": (3,),
    "exists": (3,),
    "existsOne": (3,),
    "transformList": (3, 4),
    "transformMap": (3, 4),
    "transformMapEntry": (3, 4),
}


class Checked(Struct, frozen=True):
    """The type of an expression, and its errors."""

    type: Type
    problems: tuple[syntax.Problem, ...]


def check(
    node: syntax.Node,
    variables: Mapping[str, Type],
    undeclared: frozenset[str] = frozenset(),
) -> Checked:
    """Return the type of an expression, and its certain errors.

    `variables` are the types of names; other names may be anything, but for those that
    are known to be `undeclared`. Nothing is known of an expression that is nested too
    deeply.
    """
    checker = _Checker(undeclared)
    try:
        found = checker.type_of(node, variables)
    except RecursionError:
        return Checked(DYN, ())
    return Checked(found, tuple(sorted(set(checker.problems))))


class _Checker:
    def __init__(self, undeclared: frozenset[str]) -> None:
        self._undeclared = undeclared
        self.problems: list[syntax.Problem] = []

    def type_of(self, node: syntax.Node, names: Mapping[str, Type]) -> Type:
        """Return the type of a node, and note its problems."""
        match node:
            case syntax.Literal(type=name):
                return DYN if name == "null_type" else Scalar(name)
            case syntax.Identifier():
                return self._identifier(node, names)
            case syntax.Selection():
                return self._selection(node, names)
            case syntax.Indexing():
                return self._indexing(node, names)
            case syntax.Call():
                return self._call(node, names)
            case syntax.Operation():
                return self._operation(node, names)
            case syntax.Collection(parts=parts):
                self._each(parts, names)
                return DYN

    def _each(
        self, nodes: tuple[syntax.Node, ...], names: Mapping[str, Type]
    ) -> list[Type]:
        return [self.type_of(each, names) for each in nodes]

    def _problem(self, at: int, message: str) -> Type:
        self.problems.append(syntax.Problem(at, message))
        return DYN

    def _identifier(self, node: syntax.Identifier, names: Mapping[str, Type]) -> Type:
        if node.name not in names and node.name in self._undeclared:
            message = f"undeclared reference to '{node.name}' (in container '')"
            return self._problem(node.at, message)
        return names.get(node.name, DYN)

    def _selection(
        self, node: syntax.Selection, names: Mapping[str, Type], at: int | None = None
    ) -> Type:
        """Return the type of a field; `at` is another offset for an error."""
        operand = self.type_of(node.operand, names)
        is_optional = node.is_optional or isinstance(operand, Optional)
        if isinstance(operand, Optional):
            operand = operand.value
        found = self._field(node, operand, node.at if at is None else at)
        return Optional(found) if is_optional else found

    def _field(self, node: syntax.Selection, operand: Type, at: int) -> Type:
        match operand:
            case Object(field=field) if not node.is_quoted:
                found = field(node.field)
                if found is None:
                    return self._problem(at, f"undefined field '{node.field}'")
                return found
            case MapOf(value=value):
                return value
            case Scalar(name=name):
                message = f"type '{name}' does not support field selection"
                return self._problem(at, message)
        return DYN

    def _indexing(self, node: syntax.Indexing, names: Mapping[str, Type]) -> Type:
        operand = self.type_of(node.operand, names)
        self.type_of(node.index, names)
        match operand:
            case ListOf(item=item):
                return item
            case MapOf(value=value):
                return value
        return DYN

    def _operation(self, node: syntax.Operation, names: Mapping[str, Type]) -> Type:
        """Return the type of an operation; the operators of a chain one by one.

        It does not recurse, as an expression may join hundreds of parts with ``||``.
        """
        chain = [node]
        while isinstance(first := chain[-1].operands[0], syntax.Operation):
            chain.append(first)
        found = self.type_of(first, names)
        for each in reversed(chain):
            others = self._each(each.operands[1:], names)
            found = self._result(each, [found, *others])
        return found

    def _result(self, node: syntax.Operation, operands: list[Type]) -> Type:
        if is_defined(node.operator, operands):
            return result_of(node.operator, operands)
        shown = ", ".join(each.name for each in operands if isinstance(each, Scalar))
        name = f"_{node.operator}_" if len(operands) > 1 else f"{node.operator}_"
        message = f"found no matching overload for '{name}' applied to '({shown})'"
        return self._problem(node.at, message)

    # Calls

    def _call(self, node: syntax.Call, names: Mapping[str, Type]) -> Type:
        if node.target is None:
            return self._global_call(node, names)
        target = self.type_of(node.target, names)
        if len(node.arguments) in _ONE_VARIABLE.get(node.function, ()):
            return self._macro(node, target, names, 1)
        if len(node.arguments) in _TWO_VARIABLES.get(node.function, ()):
            return self._macro(node, target, names, 2)
        if node.function == "bind" and node.target == _CEL:
            return self._bind(node, names)
        if node.function in ("optMap", "optFlatMap"):
            return self._macro(node, DYN, names, 1)
        self._each(node.arguments, names)
        return DYN

    def _global_call(self, node: syntax.Call, names: Mapping[str, Type]) -> Type:
        match node.function, node.arguments:
            case "has", (syntax.Selection() as selection,):
                self._selection(selection, names, node.at)
                return Scalar("bool")
        self._each(node.arguments, names)
        return DYN

    def _macro(
        self, node: syntax.Call, target: Type, names: Mapping[str, Type], count: int
    ) -> Type:
        """Check the arguments of a macro with the variables that it declares."""
        variables = node.arguments[:count]
        if not all(isinstance(each, syntax.Identifier) for each in variables):
            return DYN
        declared = [
            each.name for each in variables if isinstance(each, syntax.Identifier)
        ]
        types = _element_types(target, count)
        inner = {**names, **dict(zip(declared, types, strict=True))}
        found = self._each(node.arguments[count:], inner)
        if node.function in ("all", "exists", "exists_one", "existsOne"):
            return Scalar("bool")
        if node.function == "filter":
            # Of a map, the keys that are filtered are a list.
            return ListOf(STRING) if isinstance(target, MapOf) else target
        return ListOf(found[-1]) if node.function in ("map", "transformList") else DYN

    def _bind(self, node: syntax.Call, names: Mapping[str, Type]) -> Type:
        match node.arguments:
            case (syntax.Identifier(name=name), value, body):
                return self.type_of(body, {**names, name: self.type_of(value, names)})
        self._each(node.arguments, names)
        return DYN


_CEL: Final = syntax.Identifier(0, "cel")


def _element_types(target: Type, count: int) -> list[Type]:
    """Return the types of the variables that go over a list or a map."""
    match target:
        case ListOf(item=item):
            return [item] if count == 1 else [INT, item]
        case MapOf(value=value):
            return [STRING] if count == 1 else [STRING, value]
        case Dynamic() | Scalar() | Object() | Optional():
            return [DYN] * count
