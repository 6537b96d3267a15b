"""Computes the value of an expression (interpreter of cel-go).

Errors of operands count only where their value is needed: ``true || error`` is true,
and ``[1, 2].exists(x, x == 1 || error)`` too.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from controller_manager.control.cel import syntax

from .arithmetic import OPERATORS, negative
from .costs import steps_of_call, steps_of_operator
from .library import (
    authorization,
    lists,
    optionals,
    patches,
    resources,
    standard,
    strings,
)
from .library.checks import expect
from .macros import MACROS, Scope
from .values import (
    NOTHING,
    EvaluationError,
    Maybe,
    Message,
    TypeName,
    Value,
    is_key,
    is_number,
    no_overload,
)

GLOBALS: Final = {
    **standard.GLOBALS,
    **lists.GLOBALS,
    **resources.GLOBALS,
    **optionals.GLOBALS,
    **patches.GLOBALS,
}
METHODS: Final = {
    **standard.METHODS,
    **strings.METHODS,
    **lists.METHODS,
    **resources.METHODS,
    **optionals.METHODS,
    **authorization.METHODS,
}

TYPE_NAMES: Final = frozenset(
    ("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint")
)
"""Names of types that are values by themselves."""


class OutOfBudgetError(Exception):
    """An expression takes more steps than its budget has."""


class Budget:
    """The number of steps that evaluations may still take together.

    Large values take more than one step (see ``costs``).
    """

    def __init__(self, steps: int, total: "Budget | None" = None) -> None:
        """Take the number of steps; a node is a step each time it is evaluated.

        Each step is taken from `total`, too.
        """
        self._left = steps
        self._total = total

    @property
    def left(self) -> int:
        """The number of remaining steps."""
        return self._left

    def spend(self, steps: int = 1) -> None:
        """Take steps; raises OutOfBudgetError if fewer steps remain."""
        self._left -= steps
        if self._left < 0:
            raise OutOfBudgetError
        if self._total is not None:
            self._total.spend(steps)


class Evaluator:
    """Evaluates the nodes of one expression."""

    def __init__(self, literals: Mapping[int, Value], budget: Budget) -> None:
        self._literals = literals
        self._budget = budget

    def value(self, node: syntax.Node, names: Scope) -> Value:
        """Return the value of a node; raises EvaluationError, OutOfBudgetError."""
        self._budget.spend()
        match node:
            case syntax.Literal(at=at):
                return self._literals[at]
            case syntax.Identifier(name=name):
                return _named(name, names)
            case syntax.Selection():
                return self._selection(node, names)
            case syntax.Indexing():
                return self._indexing(node, names)
            case syntax.Call():
                return self._call(node, names)
            case syntax.Operation():
                return self._operation(node, names)
            case syntax.Collection():
                return self._collection(node, names)

    # Fields and items

    def _selection(self, node: syntax.Selection, names: Scope) -> Value:
        match node.operand:
            case syntax.Identifier(name=name) if f"{name}.{node.field}" in names:
                # A variable whose name has a dot: ``authorizer.requestResource``.
                return names[f"{name}.{node.field}"]
        operand = self.value(node.operand, names)
        if isinstance(operand, Maybe) or node.is_optional:
            return _optional_part(operand, node.field)
        return part_of(operand, node.field)

    def _indexing(self, node: syntax.Indexing, names: Scope) -> Value:
        operand = self.value(node.operand, names)
        index = self.value(node.index, names)
        if isinstance(operand, Maybe) or node.is_optional:
            return _optional_part(operand, index)
        return part_of(operand, index)

    def has(self, selection: syntax.Node, names: Scope) -> bool:
        """Tell whether a field is present."""
        if not isinstance(selection, syntax.Selection):
            raise no_overload()
        operand = self.value(selection.operand, names)
        if isinstance(operand, Maybe):
            return bool(_optional_part(operand, selection.field).values)
        return selection.field in expect(operand, dict)

    def _collection(self, node: syntax.Collection, names: Scope) -> Value:
        parts = [self.value(each, names) for each in node.parts]
        if node.kind == "list":
            return [*_present(parts, node.optional)]
        if node.kind == "message":
            return Message(node.type, _fields(node, parts))
        found = {}
        for number in range(0, len(parts), 2):
            key, each = parts[number], parts[number + 1]
            if not is_key(key):
                msg = "unsupported key type"
                raise EvaluationError(msg)
            if number + 1 not in node.optional:
                found[key] = each
            elif expect(each, Maybe).values:
                found[key] = each.values[0]
        return found

    # Operations

    def _operation(self, node: syntax.Operation, names: Scope) -> Value:
        match node.operator, node.operands:
            case "||" | "&&", operands:
                return self.joined(
                    ((each, names) for each in operands), ends=node.operator == "||"
                )
            case "?:", (condition, yes, no):
                found = expect(self.value(condition, names), bool)
                return self.value(yes if found else no, names)
            case "!", (operand,):
                return not expect(self.value(operand, names), bool)
            case "-", (operand,):
                return negative(self.value(operand, names))
        one, other = (self.value(each, names) for each in node.operands)
        most = self._budget.left + 1
        self._budget.spend(steps_of_operator(node.operator, one, other, most))
        return OPERATORS[node.operator](one, other)

    def joined(self, parts: Iterable[tuple[syntax.Node, Scope]], *, ends: bool) -> bool:
        """Join conditions; one that equals `ends` decides, despite other errors."""
        problem: EvaluationError | None = None
        for node, names in parts:
            try:
                if expect(self.value(node, names), bool) is ends:
                    return ends
            except EvaluationError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return not ends

    # Calls

    def _call(self, node: syntax.Call, names: Scope) -> Value:
        if node.target is None and node.function == "has":
            return self.has(node.arguments[0], names)
        if (qualified := qualified_name(node)) is not None:
            arguments = [self.value(each, names) for each in node.arguments]
            return self._applied(GLOBALS[qualified], qualified, arguments)
        macro = MACROS.get((node.function, len(node.arguments)))
        if macro is not None and node.target is not None:
            return macro(self, node, names)
        arguments = [self.value(each, names) for each in node.arguments]
        if node.target is None:
            return self._applied(GLOBALS[node.function], node.function, arguments)
        arguments = [self.value(node.target, names), *arguments]
        return self._applied(METHODS[node.function], node.function, arguments)

    def _applied(self, function: Value, name: str, arguments: list[Value]) -> Value:
        most = self._budget.left + 1
        self._budget.spend(steps_of_call(name, arguments, most))
        return _applied(function, arguments)


def qualified_name(node: syntax.Call) -> str | None:
    """Return the name of a function with a namespace, like ``sets.contains``."""
    match node.target:
        case syntax.Identifier(name=name) if f"{name}.{node.function}" in GLOBALS:
            return f"{name}.{node.function}"
    return None


def part_of(value: Value, key: Value) -> Value:
    """Return the entry of a map or the item of a list; raises EvaluationError."""
    if isinstance(value, dict):
        if is_key(key) and key in value:
            return value[key]
        msg = f"no such key: {key}"
        raise EvaluationError(msg)
    if isinstance(value, list) and is_number(key) and key == int(key):
        if 0 <= key < len(value):
            return value[int(key)]
        msg = f"index out of bounds: {int(key)}"
        raise EvaluationError(msg)
    raise no_overload()


def _optional_part(value: Value, key: Value) -> Maybe:
    """Return an optional part of a value that is optional itself."""
    if isinstance(value, Maybe):
        if not value.values:
            return NOTHING
        value = value.values[0]
    if isinstance(value, dict):
        is_there = is_key(key) and key in value
        return Maybe((value[key],)) if is_there else NOTHING
    if isinstance(value, list):
        is_there = 0 <= expect(key, int) < len(value)
        return Maybe((value[key],)) if is_there else NOTHING
    raise no_overload()


def _named(name: str, names: Scope) -> Value:
    if name in names:
        return names[name]
    if name in TYPE_NAMES:
        return TypeName(name)
    msg = f"no such attribute(s): {name}"
    raise EvaluationError(msg)


def _fields(node: syntax.Collection, parts: list[Value]) -> dict[str, Value]:
    """Return the fields of a message; an optional one may be absent."""
    found = {}
    for number, (name, each) in enumerate(zip(node.names, parts, strict=True)):
        if number not in node.optional:
            found[name] = each
        elif expect(each, Maybe).values:
            found[name] = each.values[0]
    return found


def _present(parts: list[Value], optional: tuple[int, ...]) -> Iterable[Value]:
    for number, each in enumerate(parts):
        if number in optional:
            yield from expect(each, Maybe).values
        else:
            yield each


def _applied(function: Value, arguments: list[Value]) -> Value:
    try:
        return function(*arguments)
    except TypeError:
        raise no_overload() from None
    except (OverflowError, ValueError) as error:
        raise EvaluationError(str(error)) from None
