"""Macros: calls whose arguments are evaluated again and again (parser/macro.go)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from controller_manager.control.cel.syntax import Call, Identifier, Node

from .library.checks import expect
from .values import NOTHING, EvaluationError, Maybe, Value, no_overload

Scope = Mapping[str, Value]
"""The values of names."""


class Evaluates(Protocol):
    """Evaluates nodes."""

    def value(self, node: Node, names: Scope) -> Value:
        """Return the value of a node; raises EvaluationError."""

    def joined(self, parts: Iterable[tuple[Node, Scope]], *, ends: bool) -> bool:
        """Join conditions: one that is `ends` decides."""


Macro = Callable[[Evaluates, Call, Scope], Value]


def variables_of(node: Call, count: int) -> list[str] | None:
    """Return the variables that a macro declares, `None` if they are no names."""
    first = node.arguments[:count]
    names = [each.name for each in first if isinstance(each, Identifier)]
    return names if len(names) == count else None


def _scopes(evaluator: Evaluates, node: Call, names: Scope, count: int) -> list[Scope]:
    """Return the values of names for each item of a list, or each entry of a map."""
    variables = variables_of(node, count)
    assert node.target is not None  # noqa: S101 - only methods are macros
    target = evaluator.value(node.target, names)
    if variables is None or not isinstance(target, list | dict):
        raise no_overload()
    if count == 1:
        return [{**names, variables[0]: each} for each in target]
    pairs = target.items() if isinstance(target, dict) else enumerate(target)
    return [{**names, variables[0]: one, variables[1]: other} for one, other in pairs]


def _joined(count: int, *, ends: bool) -> Macro:
    def macro(evaluator: Evaluates, node: Call, names: Scope) -> bool:
        scopes = _scopes(evaluator, node, names, count)
        condition = node.arguments[count]
        return evaluator.joined(((condition, each) for each in scopes), ends=ends)

    return macro


def _exists_one(count: int) -> Macro:
    def macro(evaluator: Evaluates, node: Call, names: Scope) -> bool:
        scopes = _scopes(evaluator, node, names, count)
        return len(_fitting(evaluator, node.arguments[count], scopes)) == 1

    return macro


def _fitting(
    evaluator: Evaluates, condition: Node, scopes: Iterable[Scope]
) -> list[Scope]:
    return [each for each in scopes if expect(evaluator.value(condition, each), bool)]


def _filter(evaluator: Evaluates, node: Call, names: Scope) -> list[Value]:
    scopes = _scopes(evaluator, node, names, 1)
    (name,) = variables_of(node, 1) or ("",)
    return [each[name] for each in _fitting(evaluator, node.arguments[1], scopes)]


def _map(count: int, *, filters: bool) -> Macro:
    def macro(evaluator: Evaluates, node: Call, names: Scope) -> list[Value]:
        scopes = _scopes(evaluator, node, names, count)
        if filters:
            scopes = _fitting(evaluator, node.arguments[count], scopes)
        return [evaluator.value(node.arguments[-1], each) for each in scopes]

    return macro


def _map_of(*, filters: bool, makes_entries: bool) -> Macro:
    def macro(evaluator: Evaluates, node: Call, names: Scope) -> dict[Value, Value]:
        scopes = _scopes(evaluator, node, names, 2)
        key, _ = variables_of(node, 2) or ("", "")
        if filters:
            scopes = _fitting(evaluator, node.arguments[2], scopes)
        found: dict[Value, Value] = {}
        for each in scopes:
            value = evaluator.value(node.arguments[-1], each)
            entries = expect(value, dict) if makes_entries else {each[key]: value}
            if any(name in found for name in entries):
                msg = "insert failed: key already exists"
                raise EvaluationError(msg)
            found.update(entries)
        return found

    return macro


def _bind(evaluator: Evaluates, node: Call, names: Scope) -> Value:
    (name,) = variables_of(node, 1) or ("",)
    value = evaluator.value(node.arguments[1], names)
    return evaluator.value(node.arguments[2], {**names, name: value})


def _opt_map(*, is_flat: bool) -> Macro:
    def macro(evaluator: Evaluates, node: Call, names: Scope) -> Maybe:
        assert node.target is not None  # noqa: S101 - only methods are macros
        found = expect(evaluator.value(node.target, names), Maybe)
        if not found.values:
            return NOTHING
        (name,) = variables_of(node, 1) or ("",)
        inner = {**names, name: found.values[0]}
        value = evaluator.value(node.arguments[1], inner)
        return expect(value, Maybe) if is_flat else Maybe((value,))

    return macro


MACROS: Final[Mapping[tuple[str, int], Macro]] = {
    ("all", 2): _joined(1, ends=False),
    ("all", 3): _joined(2, ends=False),
    ("bind", 3): _bind,
    ("exists", 2): _joined(1, ends=True),
    ("exists", 3): _joined(2, ends=True),
    ("existsOne", 2): _exists_one(1),
    ("existsOne", 3): _exists_one(2),
    ("exists_one", 2): _exists_one(1),
    ("exists_one", 3): _exists_one(2),
    ("filter", 2): _filter,
    ("map", 2): _map(1, filters=False),
    ("map", 3): _map(1, filters=True),
    ("optFlatMap", 2): _opt_map(is_flat=True),
    ("optMap", 2): _opt_map(is_flat=False),
    ("transformList", 3): _map(2, filters=False),
    ("transformList", 4): _map(2, filters=True),
    ("transformMap", 3): _map_of(filters=False, makes_entries=False),
    ("transformMap", 4): _map_of(filters=True, makes_entries=False),
    ("transformMapEntry", 3): _map_of(filters=False, makes_entries=True),
    ("transformMapEntry", 4): _map_of(filters=True, makes_entries=True),
}
"""The macros, by name and by the number of arguments."""
