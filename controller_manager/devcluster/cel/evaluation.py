"""Computes the value of an expression, with its macros (interpreter of cel-go)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from controller_manager.cel import syntax
from controller_manager.cel.syntax import Call, Identifier, Node

from . import kubernetes_library, standard_library
from .values import (
    NOTHING,
    OPERATORS,
    EvaluationError,
    Maybe,
    Message,
    TypeName,
    Value,
    expect,
    is_key,
    is_number,
    negative,
    no_overload,
)

# The additional steps of functions and operators on large values.

_CHARACTERS: Final = 16
"""The number of characters that cost one step."""

_ITEMS: Final = 4
"""The number of items of a list, or entries of a map, that cost one step."""

_AT_ONCE: Final = frozenset(
    (
        *("charAt", "dyn", "endsWith", "hasValue", "optional.of", "or", "orValue"),
        *("size", "startsWith", "type", "value"),
    )
)
"""Functions that take the same time for values of each size."""

_PATTERNS: Final = frozenset(("find", "findAll", "matches"))
_DEEP: Final = frozenset(("format", "indexOf", "lastIndexOf", "string"))
"""Functions that read the items of items."""


def steps_of_call(function: str, arguments: Sequence[Value], most: int) -> int:
    """Return the steps of a call, or any number from `most` on if there are more.

    The target of a method is its first argument. Values of wrong types cost nothing:
    the function refuses them.
    """
    if function in _AT_ONCE:
        return 0
    match function, arguments:
        case _, (str() as text, str() as pattern) if function in _PATTERNS:
            return len(text) * len(pattern) // _CHARACTERS
        case "replace", (str() as text, str() as old, str() as new, *_):
            made = text.count(old) * len(new)
            return (len(text) + made) // _CHARACTERS
        case "join", (list() as items, *separator):
            made = sum(len(each) for each in items if isinstance(each, str))
            made += sum(len(each) for each in separator) * len(items)
            return (len(items) + made) // _CHARACTERS
        case _, (list() as one, list() as other) if function.startswith("sets."):
            return size_of(one, most) * (size_of(other, most) + 1)
    if function in _DEEP:
        return sum(size_of(each, most) for each in arguments)
    return sum(_length(each) for each in arguments)


def steps_of_operator(operator: str, one: Value, other: Value, most: int) -> int:
    """Return the steps of an operator with two operands."""
    match operator:
        case "+":
            return _length(one) + _length(other)
        case "==" | "!=":
            return min(size_of(one, most), size_of(other, most))
        case "in" if isinstance(other, list):
            return size_of(other, most)
    return 0


def size_of(value: Value, most: int) -> int:
    """Return the steps that a full read of a value takes, `most` at most.

    A value may contain the same part many times.
    """
    if not isinstance(value, list | dict):
        return _length(value)
    count, waiting = 0, [value]
    while waiting and count < most:
        found = waiting.pop()
        parts = found.values() if isinstance(found, dict) else found
        waiting.extend(each for each in parts if isinstance(each, list | dict))
        texts = sum(len(each) for each in parts if isinstance(each, str | bytes))
        count += 1 + len(found) // _ITEMS + texts // _CHARACTERS
    return min(count, most)


def _length(value: Value) -> int:
    if isinstance(value, str | bytes):
        return len(value) // _CHARACTERS
    return len(value) // _ITEMS if isinstance(value, list | dict) else 0


# Macros: calls whose arguments are evaluated again and again (parser/macro.go).

Scope = Mapping[str, Value]
"""The values of names."""


class Evaluates(Protocol):
    """Evaluates nodes."""

    def value(self, node: Node, names: Scope) -> Value:
        """Return the value of a node; raises EvaluationError."""

    def joined(self, parts: Iterable[tuple[Node, Scope]], *, ends: bool) -> bool:
        """Join conditions: one that is `ends` decides."""


Run = Callable[[Evaluates, Call, Scope, int], Value]


def variables_of(node: Call, count: int) -> list[str] | None:
    """Return the variables that a macro declares, `None` if they are no names."""
    first = node.arguments[:count]
    names = [each.name for each in first if isinstance(each, Identifier)]
    return names if len(names) == count else None


def _scopes(evaluator: Evaluates, node: Call, names: Scope, count: int) -> list[Scope]:
    variables = variables_of(node, count)
    assert node.target is not None  # noqa: S101 - only methods are macros
    target = evaluator.value(node.target, names)
    if variables is None or not isinstance(target, list | dict):
        raise no_overload()
    if count == 1:
        return [{**names, variables[0]: each} for each in target]
    pairs = target.items() if isinstance(target, dict) else enumerate(target)
    return [{**names, variables[0]: one, variables[1]: other} for one, other in pairs]


def _joined(*, ends: bool) -> Run:
    def macro(evaluator: Evaluates, node: Call, names: Scope, count: int) -> bool:
        scopes = _scopes(evaluator, node, names, count)
        condition = node.arguments[count]
        return evaluator.joined(((condition, each) for each in scopes), ends=ends)

    return macro


def _exists_one(evaluator: Evaluates, node: Call, names: Scope, count: int) -> bool:
    scopes = _scopes(evaluator, node, names, count)
    return len(_fitting(evaluator, node.arguments[count], scopes)) == 1


def _fitting(
    evaluator: Evaluates, condition: Node, scopes: Iterable[Scope]
) -> list[Scope]:
    return [each for each in scopes if expect(evaluator.value(condition, each), bool)]


def _filter(evaluator: Evaluates, node: Call, names: Scope, count: int) -> list[Value]:
    scopes = _scopes(evaluator, node, names, count)
    (name,) = variables_of(node, count) or ("",)
    return [each[name] for each in _fitting(evaluator, node.arguments[1], scopes)]


def _map(*, filters: bool) -> Run:
    def macro(
        evaluator: Evaluates, node: Call, names: Scope, count: int
    ) -> list[Value]:
        scopes = _scopes(evaluator, node, names, count)
        if filters:
            scopes = _fitting(evaluator, node.arguments[count], scopes)
        return [evaluator.value(node.arguments[-1], each) for each in scopes]

    return macro


def _map_of(*, filters: bool, makes_entries: bool = False) -> Run:
    def macro(
        evaluator: Evaluates, node: Call, names: Scope, count: int
    ) -> dict[Value, Value]:
        scopes = _scopes(evaluator, node, names, count)
        key, _ = variables_of(node, count) or ("", "")
        if filters:
            scopes = _fitting(evaluator, node.arguments[count], scopes)
        found: dict[Value, Value] = {}
        for each in scopes:
            value = evaluator.value(node.arguments[-1], each)
            entries = expect(value, dict) if makes_entries else {each[key]: value}
            if any(name in found for name in entries):
                raise EvaluationError("insert failed: key already exists")
            found.update(entries)
        return found

    return macro


def _bind(evaluator: Evaluates, node: Call, names: Scope, count: int) -> Value:
    (name,) = variables_of(node, count) or ("",)
    value = evaluator.value(node.arguments[1], names)
    return evaluator.value(node.arguments[2], {**names, name: value})


def _opt_map(*, is_flat: bool) -> Run:
    def macro(evaluator: Evaluates, node: Call, names: Scope, count: int) -> Maybe:
        assert node.target is not None  # noqa: S101 - only methods are macros
        found = expect(evaluator.value(node.target, names), Maybe)
        if not found.values:
            return NOTHING
        (name,) = variables_of(node, count) or ("",)
        inner = {**names, name: found.values[0]}
        value = evaluator.value(node.arguments[1], inner)
        return expect(value, Maybe) if is_flat else Maybe((value,))

    return macro


class Macro(NamedTuple):
    """A macro that declares so many variables with its first arguments."""

    variables: int
    run: Run


MACROS: Final[Mapping[tuple[str, int], Macro]] = {
    ("all", 2): Macro(1, _joined(ends=False)),
    ("all", 3): Macro(2, _joined(ends=False)),
    ("bind", 3): Macro(1, _bind),
    ("exists", 2): Macro(1, _joined(ends=True)),
    ("exists", 3): Macro(2, _joined(ends=True)),
    ("existsOne", 2): Macro(1, _exists_one),
    ("existsOne", 3): Macro(2, _exists_one),
    ("exists_one", 2): Macro(1, _exists_one),
    ("exists_one", 3): Macro(2, _exists_one),
    ("filter", 2): Macro(1, _filter),
    ("map", 2): Macro(1, _map(filters=False)),
    ("map", 3): Macro(1, _map(filters=True)),
    ("optFlatMap", 2): Macro(1, _opt_map(is_flat=True)),
    ("optMap", 2): Macro(1, _opt_map(is_flat=False)),
    ("transformList", 3): Macro(2, _map(filters=False)),
    ("transformList", 4): Macro(2, _map(filters=True)),
    ("transformMap", 3): Macro(2, _map_of(filters=False)),
    ("transformMap", 4): Macro(2, _map_of(filters=True)),
    ("transformMapEntry", 3): Macro(2, _map_of(filters=False, makes_entries=True)),
    ("transformMapEntry", 4): Macro(2, _map_of(filters=True, makes_entries=True)),
}
"""The macros, by name and by the number of arguments."""


# Computes the value of an expression (interpreter of cel-go).

GLOBALS: Final = {**standard_library.GLOBALS, **kubernetes_library.GLOBALS}
METHODS: Final = {**standard_library.METHODS, **kubernetes_library.METHODS}

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
                raise EvaluationError("unsupported key type")
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
            return macro.run(self, node, names, macro.variables)
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
        raise EvaluationError(f"no such key: {key}")
    if isinstance(value, list) and is_number(key) and key == int(key):
        if 0 <= key < len(value):
            return value[int(key)]
        raise EvaluationError(f"index out of bounds: {int(key)}")
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
    raise EvaluationError(f"no such attribute(s): {name}")


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
