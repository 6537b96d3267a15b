"""An expression that can be evaluated, and what it costs at most.

Upstream: checker/cost.go of cel-go, and pkg/cel/library/cost.go of the API server. Here
a value has its greatest size and no type, so a cost may differ a little.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Final

from msgspec import Struct

from controller_manager.cel import syntax
from controller_manager.cel.parser import parse
from controller_manager.cel.types import escaped

from . import evaluation
from .values import EvaluationError, Value, literal_value


class Program:
    """An expression, ready to be evaluated."""

    def __init__(self, text: str) -> None:
        """Take an expression; raises SyntaxProblem if it is none."""
        self.text = text
        self.node = parse(text)
        self.literals = {
            each.at: literal_value(each)
            for each in syntax.scan(text)[0]
            if each.kind in ("int", "uint", "double", "string", "bytes")
            or each.text in ("true", "false", "null")
        }

    def evaluate(self, names: evaluation.Scope, budget: evaluation.Budget) -> Value:
        """Return the value, given those of names.

        Raises EvaluationError, and OutOfBudgetError.
        """
        try:
            return evaluation.Evaluator(self.literals, budget).value(self.node, names)
        except RecursionError:
            raise EvaluationError("the expression is nested too deeply") from None

    def problems(self, names: frozenset[str]) -> list[syntax.Problem]:
        """Return the functions and names that nothing stands for but `names`."""
        return [*_problems(self.node, names)]

    def uses(self, name: str) -> bool:
        """Tell whether the expression refers to a name."""
        return any(
            isinstance(each, syntax.Identifier) and each.name == name
            for each in _nodes(self.node)
        )


def _problems(node: syntax.Node, names: frozenset[str]) -> Iterator[syntax.Problem]:
    match node:
        case syntax.Identifier(name=name):
            if name not in names and name not in evaluation.TYPE_NAMES:
                yield _undeclared(node.at, name)
            return
        case syntax.Collection(kind="message"):
            if node.type.partition(".")[0] not in names:
                yield _undeclared(node.at, node.type or "a message type")
                return
        case syntax.Call():
            yield from _call_problems(node, names)
            return
    for each in _parts(node):
        yield from _problems(each, names)


def _call_problems(
    node: syntax.Call, names: frozenset[str]
) -> Iterator[syntax.Problem]:
    declared: list[str] = []
    outside, inside = list(node.arguments), list[syntax.Node]()
    macro = evaluation.MACROS.get((node.function, len(node.arguments)))
    if node.target is not None and macro and evaluation.qualified_name(node) is None:
        count = macro.variables
        declared = evaluation.variables_of(node, count) or []
        if len(declared) < count:
            yield syntax.Problem(node.at, "argument must be a simple name")
            return
        outside, inside = [], list(node.arguments[count:])
        if node.function == "bind":
            outside, inside = inside[:1], inside[1:]
    elif node.target is None and node.function == "has":
        if len(outside) != 1 or not isinstance(outside[0], syntax.Selection):
            yield syntax.Problem(node.at, "invalid argument to has() macro")
            return
    elif not _is_known(node):
        yield _undeclared(node.at, node.function)
    is_namespace = (
        evaluation.qualified_name(node) is not None or node.function == "bind"
    )
    if node.target is not None and not is_namespace:
        outside = [node.target, *outside]
    for each in outside:
        yield from _problems(each, names)
    for each in inside:
        yield from _problems(each, names | {*declared})


def _is_known(node: syntax.Call) -> bool:
    if evaluation.qualified_name(node) is not None:
        return True
    return node.function in (
        evaluation.GLOBALS if node.target is None else evaluation.METHODS
    )


def _undeclared(at: int, name: str) -> syntax.Problem:
    return syntax.Problem(at, f"undeclared reference to '{name}' (in container '')")


def _parts(node: syntax.Node) -> tuple[syntax.Node, ...]:
    match node:
        case syntax.Selection(operand=operand):
            return (operand,)
        case syntax.Indexing(operand=operand, index=index):
            return operand, index
        case syntax.Operation(operands=operands):
            return operands
        case syntax.Collection(parts=parts):
            return parts
        case syntax.Call(target=target, arguments=arguments):
            return arguments if target is None else (target, *arguments)
        case syntax.Literal() | syntax.Identifier():
            return ()


def _nodes(node: syntax.Node) -> Iterator[syntax.Node]:
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += _parts(found)


MOST: Final = 2**64 - 1
"""The size of a value that has no bound."""


class Bounds(Struct, frozen=True):
    """The greatest size of a value that a schema describes, and those of its parts.

    `least_bytes` is the length of its shortest form in JSON. `item` is that of a list,
    or the value of a map; `fields` are those of an object.
    """

    most: int
    least_bytes: int = 0
    item: "Bounds | None" = None
    is_map: bool = False
    fields: "Mapping[str, Bounds]" = {}


_UNKNOWN: Final = Bounds(MOST)
_SINGLE: Final = Bounds(1)
_KEY: Final = Bounds(0)

Estimate = tuple[int, Bounds]
"""The cost of an expression at most, and the bounds of its value."""

Names = Mapping[str, Bounds]
"""The bounds of variables; to read one costs a unit."""


def _size(most: float) -> int:
    return min(MOST, ceil(most))


def _larger(values: Sequence[Bounds]) -> Bounds | None:
    return max(values, key=lambda each: each.most, default=None)


# The costs of functions: of a call alone, without its target and its arguments

_PER_CHARACTER: Final = 0.1
_PER_CHARACTER_OF_PATTERN: Final = 0.25
_ADDRESS: Final = 4


def _by_character(value: Bounds) -> int:
    return ceil(value.most * _PER_CHARACTER)


def _text(target: Bounds, *_: Bounds) -> Estimate:
    return _by_character(target), target


def _product(target: Bounds, other: Bounds, *_: Bounds) -> Estimate:
    return _by_character(target) * _by_character(other), _SINGLE


def _pattern(target: Bounds, pattern: Bounds, *_: Bounds) -> Estimate:
    text = ceil((target.most + 1) * _PER_CHARACTER)
    cost = text * ceil(pattern.most * _PER_CHARACTER_OF_PATTERN)
    return cost, Bounds(target.most, item=target)


def _traverse(target: Bounds, *_: Bounds) -> Estimate:
    if target.item is None:
        return _by_character(target), _SINGLE
    return target.most * (1 + _by_character(target.item)), _SINGLE


def _replace(target: Bounds, _old: Bounds, new: Bounds, *_: Bounds) -> Estimate:
    longest = _size((target.most + 1) * new.most + target.most)
    return 2 * _by_character(target), Bounds(longest)


def _split(target: Bounds, *_: Bounds) -> Estimate:
    return 2 * _by_character(target), Bounds(target.most, item=target)


def _join(target: Bounds, *separator: Bounds) -> Estimate:
    size = target.most * (target.item or _UNKNOWN).most
    size += sum(max(0, target.most - 1) * each.most for each in separator)
    joined = Bounds(_size(size))
    return _by_character(joined), joined


_METHODS: Final[Mapping[str, Callable[..., Estimate]]] = {
    "contains": _product,
    "containsCIDR": lambda _, other: (_ADDRESS + 3 + _by_character(other), _SINGLE),
    "containsIP": lambda _, other: (_ADDRESS + _by_character(other), _SINGLE),
    "endsWith": lambda _, other: (_by_character(other), _SINGLE),
    "find": _pattern,
    "findAll": _pattern,
    "format": lambda target, _: (_by_character(target), _SINGLE),
    "indexOf": _traverse,
    "isSorted": _traverse,
    "join": _join,
    "lastIndexOf": _traverse,
    "lowerAscii": _text,
    "matches": lambda *parts: (_pattern(*parts)[0], _SINGLE),
    "max": _traverse,
    "min": _traverse,
    "replace": _replace,
    "split": _split,
    "startsWith": lambda _, other: (_by_character(other), _SINGLE),
    "substring": _text,
    "sum": _traverse,
    "trim": _text,
    "upperAscii": _text,
}
"""The methods whose cost depends on sizes."""

# The costs of operators, lists, maps and macros

_NEW_LIST: Final = 10
_NEW: Final = {"list": _NEW_LIST, "map": 30, "message": 40}
_LOGICAL: Final = {
    "all": (1, 3),
    "exists": (1, 4),
    "existsOne": (2, 2),
    "exists_one": (2, 2),
}
_STEPS: Final = {
    **_LOGICAL,
    "filter": (_NEW_LIST + 1, _NEW_LIST + 3),
    "map": (_NEW_LIST + 1, _NEW_LIST + 2),
    "transformList": (_NEW_LIST + 1, _NEW_LIST + 2),
    "transformMap": (_NEW["map"] + 1, 3),
    "transformMapEntry": (_NEW["map"] + 1, 2),
}
"""The costs of the expansion of a macro: once, and for each item.

The variable that collects the result costs a unit each time it is read; its start value
is a constant, a list or a map.
"""


def _combined(operator: str, parts: Sequence[Estimate]) -> Estimate:
    """Return the estimate of an operator with the costs of its operands."""
    cost = sum(each for each, _ in parts)
    values = [each for _, each in parts]
    match operator:
        case "&&" | "||":
            return cost, _SINGLE
        case "?:":
            chosen = _larger(values[1:]) or _UNKNOWN
            return parts[0][0] + max(each for each, _ in parts[1:]), chosen
        case "==" | "!=" | "<" | "<=" | ">" | ">=":
            compared = min(map(_by_character, values))
            return cost + max(operator not in ("==", "!="), compared), _SINGLE
        case "in":
            within = values[1]
            return cost + (1 if within.is_map else within.most), _SINGLE
        case "+" if len(values) == 2:
            size = _size(sum(each.most for each in values))
            item = _larger([each.item for each in values if each.item])
            more = 1 if item else max(1, ceil(size * _PER_CHARACTER))
            return cost + more, Bounds(size, item=item)
    return cost + 1, _SINGLE


def estimated_cost(program: Program, root: Bounds) -> int:
    """Return the cost of an expression about ``self`` and ``oldSelf`` at most.

    An expression that is nested too deeply costs nothing.
    """
    try:
        names = {"self": root, "oldSelf": root}
        return _Estimator(program).estimate(program.node, names)[0]
    except RecursionError:
        return 0


class _Estimator:
    def __init__(self, program: Program) -> None:
        self._literals = program.literals

    def estimate(self, node: syntax.Node, names: Names) -> Estimate:
        match node:
            case syntax.Literal():
                value = self._literals[node.at]
                length = len(value) if isinstance(value, str | bytes) else 1
                return 0, Bounds(length)
            case syntax.Identifier(name=name):
                return 1, names.get(name, _UNKNOWN)
            case syntax.Selection():
                return self._selection(node, names)
            case syntax.Indexing():
                cost, operand = self.estimate(node.operand, names)
                index, _ = self.estimate(node.index, names)
                return cost + index + 1, operand.item or _UNKNOWN
            case syntax.Operation():
                return self._operation(node, names)
            case syntax.Collection():
                return self._collection(node, names)
            case syntax.Call():
                return self._call(node, names)

    def _each(self, nodes: Sequence[syntax.Node], names: Names) -> list[Estimate]:
        return [self.estimate(each, names) for each in nodes]

    def _selection(self, node: syntax.Selection, names: Names) -> Estimate:
        cost, operand = self.estimate(node.operand, names)
        name = (node.is_quoted and escaped(node.field)) or node.field
        if operand.is_map and operand.item and not operand.item.most:
            return cost + 1, _SINGLE  # as upstream, which looks for a field
        inner = operand.item if operand.is_map else operand.fields.get(name)
        return cost + 1, inner or _UNKNOWN

    def _collection(self, node: syntax.Collection, names: Names) -> Estimate:
        parts = self._each(node.parts, names)
        cost = sum(each for each, _ in parts) + _NEW[node.kind]
        is_map = node.kind == "map"
        values = [each for _, each in (parts[1::2] if is_map else parts)]
        return cost, Bounds(len(values), item=_larger(values), is_map=is_map)

    def _operation(self, node: syntax.Operation, names: Names) -> Estimate:
        """Estimate an operation; the operators of a chain one by one."""
        chain = [node]
        while isinstance(first := chain[-1].operands[0], syntax.Operation):
            chain.append(first)
        found = self.estimate(first, names)
        for each in reversed(chain):
            others = self._each(each.operands[1:], names)
            is_number = each.operator == "-" and isinstance(first, syntax.Literal)
            if is_number and not others and each is chain[-1]:
                continue  # The sign of a number is a part of it.
            found = _combined(each.operator, [found, *others])
        return found

    def _call(self, node: syntax.Call, names: Names) -> Estimate:
        match node:
            case syntax.Call(
                target=None, function="has", arguments=(syntax.Selection() as field,)
            ):
                return self.estimate(field.operand, names)[0], _SINGLE
            case syntax.Call(
                function="bind", arguments=(syntax.Identifier() as bind, value, body)
            ):
                cost, bound = self.estimate(value, names)
                more, found = self.estimate(body, {**names, bind.name: bound})
                return cost + more + _NEW_LIST, found
        name = evaluation.qualified_name(node)
        if node.target is None or name is not None:
            parts = self._each(node.arguments, names)
            return self._function(name or node.function, parts)
        target = self.estimate(node.target, names)
        macro = evaluation.MACROS.get((node.function, len(node.arguments)))
        if node.function in _STEPS and macro:
            return self._macro(node, target, names, macro.variables)
        if node.function in ("optMap", "optFlatMap"):
            inner = dict.fromkeys(evaluation.variables_of(node, 1) or (), target[1])
            cost, found = self.estimate(node.arguments[-1], {**names, **inner})
            return 2 * target[0] + cost + _NEW_LIST + 3, found
        parts = [target, *self._each(node.arguments, names)]
        estimator = _METHODS.get(node.function)
        alone, found = (
            estimator(*(each for _, each in parts)) if estimator else (1, _SINGLE)
        )
        return alone + sum(each for each, _ in parts), found

    def _function(self, name: str, parts: Sequence[Estimate]) -> Estimate:
        cost = sum(each for each, _ in parts)
        value = parts[0][1] if len(parts) == 1 else _SINGLE
        if name in ("url", "bytes", "string"):
            # A number, which has no size, may become a text of any size.
            size = value.most * (4 if name == "bytes" else 1) or MOST
            return cost + max(1, _by_character(value)), Bounds(_size(size))
        return cost + 1, value if name == "dyn" else _SINGLE

    def _macro(
        self, node: syntax.Call, target: Estimate, names: Names, count: int
    ) -> Estimate:
        whole, item = target[1], target[1].item or _UNKNOWN
        key = _KEY if whole.is_map else _SINGLE
        values = [key, item] if count == 2 else [key if whole.is_map else item]
        variables = evaluation.variables_of(node, count) or []
        inner = {**names, **dict(zip(variables, values, strict=False))}
        parts = self._each(node.arguments[count:], inner)
        once, each_time = _STEPS[node.function]
        each_time += sum(each for each, _ in parts)
        cost = target[0] + once + whole.most * each_time
        if node.function in _LOGICAL:
            return cost, _SINGLE
        is_map = node.function.startswith("transformMap")
        made = values[0] if node.function == "filter" else parts[-1][1]
        return cost, Bounds(whole.most, item=made, is_map=is_map)
