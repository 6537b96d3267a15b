"""Estimates the cost of an expression before it is evaluated (checker/cost.go).

Values in objects have the sizes that their schema allows at most. Macros cost what
their expansions would cost, as upstream expands them when it parses.
"""

from collections.abc import Mapping
from typing import Final

from controller_manager.control.cel import syntax
from controller_manager.control.cel.types import (
    BOOL,
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
)

from .call_estimates import estimate_call
from .evaluation import qualified_name
from .macros import MACROS, variables_of
from .operator_estimates import any_of, combined
from .program import Program
from .sizes import ITEMS, KEYS, ONE, Bounds, Estimate, Size, is_single, size_at

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
        """Estimate a macro that goes over a list or a map."""
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
        """Return the estimates of the variables of a macro."""
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
    """Return how many variables a macro declares."""
    if node.function in ("filter", "map"):
        return 1
    return len(node.arguments) - 1 if node.function in _LOGICAL else 2
