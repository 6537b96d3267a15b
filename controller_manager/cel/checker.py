"""Finds errors that the type checker of cel-go finds, too (checker/checker.go).

It finds fields that objects do not have, selections of fields of scalars, operators
with scalars for which they are not defined, and names that are known to be undeclared.
It says nothing of functions, nor of anything whose type it does not know.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from . import syntax, types

_ONE_VARIABLE: Final = {
    **dict.fromkeys(("all", "exists", "exists_one", "existsOne", "filter"), (2,)),
    "map": (2, 3),
}
"""Macros with one variable, and the numbers of arguments that they take."""

_TWO_VARIABLES: Final = {
    **dict.fromkeys(("all", "exists", "existsOne"), (3,)),
    **dict.fromkeys(("transformList", "transformMap", "transformMapEntry"), (3, 4)),
}

_Names = Mapping[str, types.Type]
"""The types of names."""


class Checked(Struct, frozen=True):
    """The type of an expression, and its errors."""

    type: types.Type
    problems: tuple[syntax.Problem, ...]


def check(
    node: syntax.Node,
    variables: Mapping[str, types.Type],
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
        return Checked(types.DYN, ())
    return Checked(found, tuple(sorted(set(checker.problems))))


class _Checker:
    def __init__(self, undeclared: frozenset[str]) -> None:
        self._undeclared = undeclared
        self.problems: list[syntax.Problem] = []

    def type_of(self, node: syntax.Node, names: _Names) -> types.Type:
        """Return the type of a node, and note its problems."""
        match node:
            case syntax.Literal(type=name):
                return types.DYN if name == "null_type" else types.Scalar(name)
            case syntax.Identifier():
                return self._identifier(node, names)
            case syntax.Selection():
                return self._selection(node, names, node.at)
            case syntax.Indexing():
                return self._indexing(node, names)
            case syntax.Call():
                return self._call(node, names)
            case syntax.Operation():
                return self._operation(node, names)
            case syntax.Collection(parts=parts):
                self._each(parts, names)
                return types.DYN

    def _each(self, nodes: tuple[syntax.Node, ...], names: _Names) -> list[types.Type]:
        return [self.type_of(each, names) for each in nodes]

    def _problem(self, at: int, message: str) -> types.Type:
        self.problems.append(syntax.Problem(at, message))
        return types.DYN

    def _identifier(self, node: syntax.Identifier, names: _Names) -> types.Type:
        if node.name not in names and node.name in self._undeclared:
            message = f"undeclared reference to '{node.name}' (in container '')"
            return self._problem(node.at, message)
        return names.get(node.name, types.DYN)

    def _selection(self, node: syntax.Selection, names: _Names, at: int) -> types.Type:
        """Return the type of a field; `at` is the offset for an error."""
        operand = self.type_of(node.operand, names)
        is_optional = node.is_optional or isinstance(operand, types.Optional)
        if isinstance(operand, types.Optional):
            operand = operand.value
        found = self._field(node, operand, at)
        return types.Optional(found) if is_optional else found

    def _field(
        self, node: syntax.Selection, operand: types.Type, at: int
    ) -> types.Type:
        match operand:
            case types.Object(field=field) if not node.is_quoted:
                found = field(node.field)
                if found is None:
                    return self._problem(at, f"undefined field '{node.field}'")
                return found
            case types.MapOf(value=value):
                return value
            case types.Scalar(name=name):
                message = f"type '{name}' does not support field selection"
                return self._problem(at, message)
        return types.DYN

    def _indexing(self, node: syntax.Indexing, names: _Names) -> types.Type:
        operand = self.type_of(node.operand, names)
        self.type_of(node.index, names)
        match operand:
            case types.ListOf(item=item):
                return item
            case types.MapOf(value=value):
                return value
        return types.DYN

    def _operation(self, node: syntax.Operation, names: _Names) -> types.Type:
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

    def _result(self, node: syntax.Operation, operands: list[types.Type]) -> types.Type:
        if types.is_defined(node.operator, operands):
            return types.result_of(node.operator, operands)
        scalars = (each for each in operands if isinstance(each, types.Scalar))
        shown = ", ".join(each.name for each in scalars)
        name = f"_{node.operator}_" if len(operands) > 1 else f"{node.operator}_"
        message = f"found no matching overload for '{name}' applied to '({shown})'"
        return self._problem(node.at, message)

    # Calls

    def _call(self, node: syntax.Call, names: _Names) -> types.Type:
        if node.target is None:
            match node.function, node.arguments:
                case "has", (syntax.Selection() as selection,):
                    self._selection(selection, names, node.at)
                    return types.BOOL
            self._each(node.arguments, names)
            return types.DYN
        target = self.type_of(node.target, names)
        if len(node.arguments) in _ONE_VARIABLE.get(node.function, ()):
            return self._macro(node, target, names, 1)
        if len(node.arguments) in _TWO_VARIABLES.get(node.function, ()):
            return self._macro(node, target, names, 2)
        if node.function == "bind" and node.target == _CEL:
            return self._bind(node, names)
        if node.function in ("optMap", "optFlatMap"):
            return self._macro(node, types.DYN, names, 1)
        self._each(node.arguments, names)
        return types.DYN

    def _macro(
        self,
        node: syntax.Call,
        target: types.Type,
        names: _Names,
        count: int,
    ) -> types.Type:
        """Check the arguments of a macro with the variables that it declares."""
        inner = dict(names)
        variables = node.arguments[:count]
        for each, element in zip(
            variables, _element_types(target, count), strict=False
        ):
            if not isinstance(each, syntax.Identifier):
                return types.DYN
            inner[each.name] = element
        found = self._each(node.arguments[count:], inner)
        match node.function:
            case "all" | "exists" | "exists_one" | "existsOne":
                return types.BOOL
            case "filter" if isinstance(target, types.MapOf):
                return types.ListOf(types.STRING)  # the keys that are filtered
            case "filter":
                return target
            case "map" | "transformList":
                return types.ListOf(found[-1])
        return types.DYN

    def _bind(self, node: syntax.Call, names: _Names) -> types.Type:
        match node.arguments:
            case (syntax.Identifier(name=name), value, body):
                return self.type_of(body, {**names, name: self.type_of(value, names)})
        self._each(node.arguments, names)
        return types.DYN


_CEL: Final = syntax.Identifier(0, "cel")


def _element_types(target: types.Type, count: int) -> list[types.Type]:
    """Return the types of the variables that go over a list or a map."""
    match target:
        case types.ListOf(item=item):
            return [item] if count == 1 else [types.INT, item]
        case types.MapOf(value=value):
            return [types.STRING] if count == 1 else [types.STRING, value]
    return [types.DYN] * count
