"""Estimates the cost of an expression before it is evaluated.

Upstream: checker/cost.go of cel-go, and pkg/cel/library/cost.go of the API server.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.cel import syntax
from controller_manager.cel.types import (
    BOOL,
    BYTES,
    DYN,
    INT,
    STRING,
    ListOf,
    MapOf,
    Object,
    Optional,
    Scalar,
    Type,
    escaped,
    result_of,
)

from .evaluation import MACROS, qualified_name, variables_of
from .program import Program

# The sizes that values can have, for estimates of costs (checker/cost.go of cel-
# go).

MOST: Final = 2**64 - 1
"""The size of a value that has no bound."""


class Size(Struct, frozen=True):
    """The least and the greatest size that a value can have."""

    least: int
    most: int

    def plus(self, other: "Size") -> "Size":
        """Return the size of two values one after the other."""
        least, most = self.least + other.least, self.most + other.most
        return Size(min(MOST, least), min(MOST, most))

    def times(self, other: "Size") -> "Size":
        """Return the size of as many values as the other size says."""
        least, most = self.least * other.least, self.most * other.most
        return Size(min(MOST, least), min(MOST, most))

    def or_other(self, other: "Size") -> "Size":
        """Return the size of one of two values."""
        return Size(min(self.least, other.least), max(self.most, other.most))

    def cost(self, factor: float) -> int:
        """Return the greatest cost, at so much for each unit."""
        return ceil(self.most * factor)


ONE: Final = Size(1, 1)
UNKNOWN: Final = Size(0, MOST)


class Bounds(Struct, frozen=True):
    """The greatest size of a value that a schema describes, and those of its parts.

    `least_bytes` is the length of its shortest form in JSON. `keys` tells whether it is
    a map, `fields` are those of an object.
    """

    most: int
    least_bytes: int
    item: "Bounds | None" = None
    is_map: bool = False
    fields: "Mapping[str, Bounds]" = {}


_KEY: Final = Bounds(0, 2)

KEYS, ITEMS = "@keys", "@items"
"""The steps of a path to any key of a map, and to any item or value."""


def size_at(root: Bounds, path: tuple[str, ...]) -> Size | None:
    """Return the size of the part at a path, `None` if the schema says nothing of it.

    The first step of a path is the name of a variable.
    """
    found = root
    for step in path[1:]:
        if step == ITEMS:
            inner = found.item
        elif step == KEYS:
            inner = _KEY if found.is_map else None
        else:
            inner = found.fields.get(step)
        if inner is None:
            return None
        found = inner
    return Size(0, found.most) if path else None


class Estimate(Struct, frozen=True):
    """The cost of an expression at most, and all that is known of its value.

    `path` leads to it in the schema, and is empty if it is not a part of an object.
    `key` and `item` are the sizes of the entries of a list or map that the expression
    itself makes.
    """

    cost: int
    type: Type = DYN
    path: tuple[str, ...] = ()
    known_size: Size | None = None
    item: Size | None = None
    key: Size | None = None

    @property
    def size(self) -> Size:
        """The size of the value."""
        return self.known_size or UNKNOWN

    def costing(self, cost: int) -> "Estimate":
        """Return the same value at another cost."""
        return replace(self, cost=cost)


_SIZELESS: Final = frozenset(("string", "bytes", "null_type", "type"))


def is_single(type_: Type) -> bool:
    """Tell whether all values of a type have the size 1."""
    return isinstance(type_, Scalar) and type_.name not in _SIZELESS


# The estimated costs of functions (pkg/cel/library/cost.go and checker/cost.go).

PER_CHARACTER: Final = 0.1
_PER_CHARACTER_OF_PATTERN: Final = 0.25
_ADDRESS: Final = Size(4, 16)
_SMALL: Final = Size(0, 1)

Parts = Sequence[Estimate]
Estimator = Callable[[Bounds, Parts], Estimate]
"""Estimates a call alone: without the costs of its target and its arguments."""


def is_text(type_: Type) -> bool:
    """Tell whether a type is that of a text or of bytes."""
    return type_ in (STRING, BYTES)


def _argument(_root: Bounds, parts: Parts) -> Estimate:
    return Estimate(parts[1].size.cost(PER_CHARACTER), BOOL, (), ONE)


def _contains(_root: Bounds, parts: Parts) -> Estimate:
    one, other = (each.size.cost(PER_CHARACTER) for each in parts)
    return Estimate(one * other, BOOL, (), ONE)


def _pattern_cost(parts: Parts) -> int:
    text = parts[0].size.plus(ONE).cost(PER_CHARACTER)
    return text * parts[1].size.cost(_PER_CHARACTER_OF_PATTERN)


def _find(type_: Type) -> Estimator:
    def estimator(_root: Bounds, parts: Parts) -> Estimate:
        size = Size(0, parts[0].size.most)
        return Estimate(_pattern_cost(parts), type_, (), size)

    return estimator


def _same_text(_root: Bounds, parts: Parts) -> Estimate:
    size = parts[0].size
    return Estimate(size.cost(PER_CHARACTER), STRING, (), size)


def _item_size(root: Bounds, parts: Parts) -> Size:
    path = parts[0].path
    return (size_at(root, (*path, ITEMS)) if path else None) or UNKNOWN


def _traverse(root: Bounds, parts: Parts) -> Estimate:
    target = parts[0]
    if not isinstance(target.type, ListOf):
        return Estimate(target.size.cost(PER_CHARACTER), DYN, (), ONE)
    item = 1
    if is_text(target.type.item):
        item += _item_size(root, parts).cost(PER_CHARACTER)
    return Estimate(target.size.most * item, DYN, (), _SMALL)


def _replace(_root: Bounds, parts: Parts) -> Estimate:
    size, old, new, *_ = (each.size for each in parts)
    count = kept = 0
    if old.least == 0:
        count, kept = size.most + 1, size.most
    elif new.most <= old.least:
        kept = size.most
    else:
        count = ceil(float(size.most) / float(old.least))
    longest = Size(0, count).times(new).plus(Size(0, kept))
    return Estimate(size.cost(2 * PER_CHARACTER), STRING, (), longest)


def _split(_root: Bounds, parts: Parts) -> Estimate:
    size = parts[0].size
    cost = size.cost(2 * PER_CHARACTER)
    return Estimate(cost, ListOf(STRING), (), Size(0, size.most))


def _join(root: Bounds, parts: Parts) -> Estimate:
    count = parts[0].size
    size = count.times(_item_size(root, parts))
    if len(parts) > 1:
        separators = Size(max(0, count.least - 1), max(0, count.most - 1))
        size = size.plus(parts[1].size.times(separators))
    return Estimate(size.cost(PER_CHARACTER), STRING, (), size)


def _contains_address(more: int) -> Estimator:
    def estimator(_root: Bounds, parts: Parts) -> Estimate:
        cost = _ADDRESS.plus(_ADDRESS).cost(PER_CHARACTER) + more
        if parts[1].type == STRING:
            cost += parts[1].size.cost(PER_CHARACTER)
        return Estimate(cost, BOOL, (), ONE)

    return estimator


_METHODS: Final[dict[tuple[str, int], Estimator]] = {
    ("contains", 1): _contains,
    ("containsCIDR", 1): _contains_address(_ADDRESS.cost(PER_CHARACTER) + 1),
    ("containsIP", 1): _contains_address(0),
    ("endsWith", 1): _argument,
    ("find", 1): _find(STRING),
    ("findAll", 1): _find(ListOf(STRING)),
    ("findAll", 2): _find(ListOf(STRING)),
    ("format", 1): lambda _, parts: Estimate(
        parts[0].size.cost(PER_CHARACTER), STRING, (), _SMALL
    ),
    ("indexOf", 1): _traverse,
    ("indexOf", 2): _traverse,
    ("isSorted", 0): _traverse,
    ("join", 0): _join,
    ("join", 1): _join,
    ("lastIndexOf", 1): _traverse,
    ("lastIndexOf", 2): _traverse,
    ("lowerAscii", 0): _same_text,
    ("matches", 1): lambda _, parts: Estimate(_pattern_cost(parts), BOOL, (), ONE),
    ("max", 0): _traverse,
    ("min", 0): _traverse,
    ("replace", 2): _replace,
    ("replace", 3): _replace,
    ("split", 1): _split,
    ("split", 2): _split,
    ("startsWith", 1): _argument,
    ("substring", 1): _same_text,
    ("substring", 2): _same_text,
    ("sum", 0): _traverse,
    ("trim", 0): _same_text,
    ("upperAscii", 0): _same_text,
}
"""The methods whose cost depends on sizes, by the number of their arguments."""


def _converted(function: str, argument: Estimate) -> Estimate:
    size, cost = argument.size, argument.size.cost(PER_CHARACTER)
    match function:
        case "url":
            return Estimate(cost, DYN, (), _SMALL)
        case "bytes" if argument.type in (STRING, DYN):
            return Estimate(max(1, cost), BYTES, (), Size(size.least, size.most * 4))
        case "string" if argument.type in (BYTES, DYN):
            return Estimate(max(1, cost), STRING, (), Size(size.least // 4, size.most))
        case "string":
            return Estimate(1, STRING)
        case "dyn":
            return Estimate(1, DYN, (), argument.known_size, argument.item)
        case "size" | "int":
            return Estimate(1, INT, (), ONE)
    return Estimate(1, DYN, (), _SMALL)


def estimate_call(
    root: Bounds, function: str, target: Estimate | None, arguments: Parts
) -> Estimate:
    """Return the estimate of a call with the costs of its parts.

    `target` is absent for functions that are not methods.
    """
    parts = [*([target] if target is not None else []), *arguments]
    found = Estimate(1, DYN, (), _SMALL)
    if target is not None and function == "size":
        found = Estimate(1, INT, (), ONE)
    elif target is not None:
        estimator = _METHODS.get((function, len(arguments)))
        found = estimator(root, parts) if estimator is not None else found
    elif len(arguments) == 1:
        found = _converted(function, arguments[0])
    if is_single(found.type):
        found = Estimate(found.cost, found.type, (), ONE)
    return found.costing(found.cost + sum(each.cost for each in parts))


# The estimated costs of operators (checker/cost.go of cel-go).


def any_of(parts: Sequence[Estimate]) -> Size:
    """Return the size of any of these values."""
    if not parts:
        return Size(0, 0)
    sizes = [each.size for each in parts]
    return Size(min(each.least for each in sizes), max(each.most for each in sizes))


def combined(operator: str, parts: Sequence[Estimate]) -> Estimate:
    """Return the estimate of an operator with the costs of its operands."""
    cost, types = sum(each.cost for each in parts), [each.type for each in parts]
    match operator, parts:
        case "&&" | "||", _:
            return Estimate(cost, BOOL, (), ONE)
        case "?:", [condition, yes, no]:
            most = condition.cost + max(yes.cost, no.cost)
            size = yes.size.or_other(no.size)
            item = yes.item.or_other(no.item) if yes.item and no.item else None
            type_ = no.type if yes.type == DYN else yes.type
            return Estimate(most, type_, (), size, item)
        case "==" | "!=", _:
            return Estimate(cost + _compared(parts), BOOL, (), ONE)
        case "<" | "<=" | ">" | ">=", _:
            more = 1 if any(map(is_single, types)) else _compared(parts)
            return Estimate(cost + more, BOOL, (), ONE)
        case "in", [_, within]:
            more = 1 if isinstance(within.type, MapOf) else within.size.most
            return Estimate(cost + more, BOOL, (), ONE)
        case "+", [one, other] if not any(map(is_single, types)):
            return _added(cost, one, other)
    found = result_of(operator, types)
    return Estimate(cost + 1, found, (), ONE)


def _compared(parts: Sequence[Estimate]) -> int:
    size = min(each.size.most for each in parts)
    return Size(0, size).cost(PER_CHARACTER)


def _added(cost: int, one: Estimate, other: Estimate) -> Estimate:
    size = one.size.plus(other.size)
    item = one.item.or_other(other.item) if one.item and other.item else None
    type_ = other.type if one.type == DYN else one.type
    more = size.cost(PER_CHARACTER) if is_text(type_) else 1
    return Estimate(cost + more, type_, (), size, item)


# Estimates the cost of an expression before it is evaluated (checker/cost.go).

_NEW_LIST: Final = 10
_NEW_MAP: Final = 30
_NEW_MESSAGE: Final = 40

_LOGICAL: Final = {
    "all": (1, 3),
    "exists": (1, 4),
    "existsOne": (2, 2),
    "exists_one": (2, 2),
}
_MAKING: Final = {
    "filter": (_NEW_LIST + 1, _NEW_LIST + 3),
    "map": (_NEW_LIST + 1, _NEW_LIST + 2),
    "transformList": (_NEW_LIST + 1, _NEW_LIST + 2),
    "transformMap": (_NEW_MAP + 1, 3),
    "transformMapEntry": (_NEW_MAP + 1, 2),
}
_STEPS: Final = _LOGICAL | _MAKING
"""The costs of the expansion of a macro: once, and for each item.

The variable that collects the result costs a unit each time it is read; its start value
is a constant, a list or a map.
"""

Names = Mapping[str, Estimate]
"""The estimates of variables; to read one costs a unit."""


def estimated_cost(program: Program, types: Mapping[str, Type], root: Bounds) -> int:
    """Return the cost of an expression at most.

    All `types` of variables belong to the value that `root` describes. An expression
    that is nested too deeply costs nothing.
    """
    names = {
        name: Estimate(1, each, (name,), size_at(root, (name,)))
        for name, each in types.items()
    }
    try:
        return _Estimator(program, root).estimate(program.node, names).cost
    except RecursionError:
        return 0


class _Estimator:
    def __init__(self, program: Program, root: Bounds) -> None:
        self._literals = program.literals
        self._root = root

    def estimate(self, node: syntax.Node, names: Names) -> Estimate:
        match node:
            case syntax.Literal():
                return self._literal(node)
            case syntax.Identifier(name=name):
                return names.get(name) or self._at(1, DYN, (name,))
            case syntax.Selection():
                return self._selection(node, names)
            case syntax.Indexing():
                return self._indexing(node, names)
            case syntax.Operation():
                return self._operation(node, names)
            case syntax.Collection():
                return self._collection(node, names)
            case syntax.Call():
                return self._call(node, names)

    def _each(self, nodes: tuple[syntax.Node, ...], names: Names) -> list[Estimate]:
        return [self.estimate(each, names) for each in nodes]

    def _at(
        self, cost: int, type_: Type, path: tuple[str, ...], size: Size | None = None
    ) -> Estimate:
        """Return the estimate of a part of an object; `size` is that of its list."""
        found = size or size_at(self._root, path)
        if found is None and is_single(type_):
            found = ONE
        return Estimate(cost, type_, path, found)

    def _literal(self, node: syntax.Literal) -> Estimate:
        value = self._literals[node.at]
        length = len(value) if isinstance(value, str | bytes) else 1
        return Estimate(0, Scalar(node.type), (), Size(length, length))

    def _selection(self, node: syntax.Selection, names: Names) -> Estimate:
        operand = self.estimate(node.operand, names)
        name = (node.is_quoted and escaped(node.field)) or node.field
        type_, path = operand.type, (*operand.path, name)
        is_optional = node.is_optional or isinstance(type_, Optional)
        type_ = type_.value if isinstance(type_, Optional) else type_
        cost = int(is_optional)
        found: Type = DYN
        match type_:
            case Object(field=field):
                cost, found = 1, field(name) or DYN
            case MapOf(value=value):
                cost, found = 1, value
        estimate = self._at(operand.cost + cost, found, path)
        if not is_optional:
            return estimate
        return Estimate(estimate.cost, Optional(found), path, estimate.known_size)

    def _indexing(self, node: syntax.Indexing, names: Names) -> Estimate:
        operand, index = self._each((node.operand, node.index), names)
        found: Type = DYN
        match operand.type:
            case ListOf(item=inner) | MapOf(value=inner):
                found = inner
        cost = operand.cost + index.cost + 1
        return self._at(cost, found, (*operand.path, ITEMS), operand.item)

    def _collection(self, node: syntax.Collection, names: Names) -> Estimate:
        parts = self._each(node.parts, names)
        cost = sum(each.cost for each in parts)
        if node.kind == "message":
            return Estimate(cost + _NEW_MESSAGE, DYN, (), Size(0, len(parts)))
        if node.kind == "list":
            type_: Type = ListOf(parts[0].type if parts else DYN)
            size = Size(len(parts), len(parts))
            return Estimate(cost + _NEW_LIST, type_, (), size, any_of(parts), ONE)
        keys, values = parts[::2], parts[1::2]
        type_ = MapOf(values[0].type if values else DYN)
        size = Size(len(keys), len(keys))
        item, key = any_of(values), any_of(keys)
        return Estimate(cost + _NEW_MAP, type_, (), size, item, key)

    # Operators

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
            found = combined(each.operator, [found, *others])
        return found

    # Calls

    def _call(self, node: syntax.Call, names: Names) -> Estimate:
        match node:
            case syntax.Call(
                target=None, function="has", arguments=(syntax.Selection() as field,)
            ):
                cost = self.estimate(field.operand, names).cost
                return Estimate(cost, BOOL, (), ONE)
            case syntax.Call(
                function="bind", arguments=(syntax.Identifier() as bind, value, body)
            ):
                bound = self.estimate(value, names)
                found = self.estimate(body, {**names, bind.name: bound.costing(1)})
                return found.costing(found.cost + bound.cost + _NEW_LIST)
        name = qualified_name(node)
        if node.target is None or name is not None:
            arguments = self._each(node.arguments, names)
            return estimate_call(self._root, name or node.function, None, arguments)
        target = self.estimate(node.target, names)
        if node.function in _STEPS and (node.function, len(node.arguments)) in MACROS:
            return self._macro(node, target, names)
        if node.function in ("optMap", "optFlatMap"):
            return self._opt_map(node, target, names)
        arguments = self._each(node.arguments, names)
        return estimate_call(self._root, node.function, target, arguments)

    def _opt_map(self, node: syntax.Call, target: Estimate, names: Names) -> Estimate:
        inner = target.type.value if isinstance(target.type, Optional) else DYN
        value = Estimate(1, inner, target.path, target.known_size)
        bound = dict.fromkeys(variables_of(node, 1) or (), value)
        found = self.estimate(node.arguments[-1], {**names, **bound})
        cost = 2 * target.cost + found.cost + _NEW_LIST + 3
        return Estimate(cost, Optional(found.type), (), found.known_size)

    def _macro(self, node: syntax.Call, target: Estimate, names: Names) -> Estimate:
        count = _count(node)
        variables = variables_of(node, count) or []
        values = self._variables(target, count)
        inner = {**names, **dict(zip(variables, values, strict=False))}
        parts = self._each(node.arguments[count:], inner)
        once, each_time = _STEPS[node.function]
        each_time += sum(part.cost for part in parts)
        cost = target.cost + once + target.size.most * each_time
        if node.function in _LOGICAL:
            return Estimate(cost, BOOL, (), ONE)
        if node.function.startswith("transformMap"):
            return Estimate(cost, MapOf(parts[-1].type), (), target.size)
        made = values[0] if node.function == "filter" else parts[-1]
        item = Size(0, made.size.most)
        return Estimate(cost, ListOf(made.type), (), target.size, item, ONE)

    def _variables(self, target: Estimate, count: int) -> list[Estimate]:
        path = target.path
        match target.type:
            case ListOf(item=type_):
                item = self._variable(type_, (*path, ITEMS), target.item)
                return [item] if count == 1 else [Estimate(1, INT, (), ONE), item]
            case MapOf(value=type_):
                key = self._variable(STRING, (*path, KEYS), target.key)
                value = self._variable(type_, (*path, ITEMS), target.item)
                return [key] if count == 1 else [key, value]
        return [self._variable(DYN, (*path, ITEMS), target.item)] * count

    def _variable(
        self, type_: Type, path: tuple[str, ...], size: Size | None
    ) -> Estimate:
        """Return the estimate of a variable.

        `size` is known of the entries of a value that the expression itself makes; the
        path of such an entry has one step.
        """
        found = self._at(1, type_, path)
        if found.known_size is None or len(path) == 1:
            return self._at(1, type_, path, size)
        return found


def _count(node: syntax.Call) -> int:
    if node.function in ("filter", "map"):
        return 1
    return len(node.arguments) - 1 if node.function in _LOGICAL else 2
