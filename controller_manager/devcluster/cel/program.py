"""An expression that can be evaluated."""

from collections.abc import Iterator
from typing import Final

from controller_manager.cel import syntax
from controller_manager.cel.parser import parse

from .evaluation import (
    GLOBALS,
    MACROS,
    METHODS,
    TYPE_NAMES,
    Budget,
    Evaluator,
    Scope,
    qualified_name,
    variables_of,
)
from .values import EvaluationError, Value, literal_value

_CONSTANTS: Final = ("true", "false", "null")


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
            or each.text in _CONSTANTS
        }

    def evaluate(self, names: Scope, budget: Budget) -> Value:
        """Return the value, given those of names.

        Raises EvaluationError, and OutOfBudgetError.
        """
        try:
            return Evaluator(self.literals, budget).value(self.node, names)
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
            if name not in names and name not in TYPE_NAMES:
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
    macro = MACROS.get((node.function, len(node.arguments)))
    if node.target is not None and macro and qualified_name(node) is None:
        count = macro.variables
        declared = variables_of(node, count) or []
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
    is_namespace = qualified_name(node) is not None or node.function == "bind"
    if node.target is not None and not is_namespace:
        outside = [node.target, *outside]
    for each in outside:
        yield from _problems(each, names)
    for each in inside:
        yield from _problems(each, names | {*declared})


def _is_known(node: syntax.Call) -> bool:
    if qualified_name(node) is not None:
        return True
    return node.function in (GLOBALS if node.target is None else METHODS)


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
