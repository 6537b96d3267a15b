"""An expression that can be evaluated."""

from collections.abc import Iterator
from typing import Final

from controller_manager.control.cel.messages import Problem
from controller_manager.control.cel.parser import parse
from controller_manager.control.cel.syntax import (
    Call,
    Collection,
    Identifier,
    Indexing,
    Literal,
    Node,
    Operation,
    Selection,
)
from controller_manager.control.cel.tokens import scan

from .evaluation import GLOBALS, METHODS, TYPE_NAMES, Budget, Evaluator, qualified_name
from .literals import literal_value
from .macros import MACROS, Scope, variables_of
from .values import EvaluationError, Value

_CONSTANTS: Final = ("true", "false", "null")


class Program:
    """An expression, ready to be evaluated."""

    def __init__(self, text: str) -> None:
        """Take an expression; raises SyntaxProblem if it is none."""
        self.text = text
        self.node = parse(text)
        self.literals = {
            each.at: literal_value(each)
            for each in scan(text)[0]
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
            msg = "the expression is nested too deeply"
            raise EvaluationError(msg) from None

    def problems(self, names: frozenset[str]) -> list[Problem]:
        """Return the functions and names that nothing stands for but `names`."""
        return [*_problems(self.node, names)]

    def uses(self, name: str) -> bool:
        """Tell whether the expression refers to a name."""
        return any(
            isinstance(each, Identifier) and each.name == name
            for each in _nodes(self.node)
        )


def _problems(node: Node, names: frozenset[str]) -> Iterator[Problem]:
    match node:
        case Identifier(name=name):
            if name not in names and name not in TYPE_NAMES:
                yield _undeclared(node.at, name)
            return
        case Collection(kind="message"):
            if node.type.partition(".")[0] not in names:
                yield _undeclared(node.at, node.type or "a message type")
                return
        case Call():
            yield from _call_problems(node, names)
            return
    for each in _parts(node):
        yield from _problems(each, names)


def _call_problems(node: Call, names: frozenset[str]) -> Iterator[Problem]:
    declared: list[str] = []
    outside, inside = list(node.arguments), list[Node]()
    macro = (node.function, len(node.arguments))
    if node.target is not None and macro in MACROS and qualified_name(node) is None:
        count = _variables(*macro)
        declared = variables_of(node, count) or []
        if len(declared) < count:
            yield Problem(node.at, "argument must be a simple name")
            return
        outside, inside = [], list(node.arguments[count:])
        if node.function == "bind":
            outside, inside = inside[:1], inside[1:]
    elif node.target is None and node.function == "has":
        if len(outside) != 1 or not isinstance(outside[0], Selection):
            yield Problem(node.at, "invalid argument to has() macro")
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


def _variables(function: str, arguments: int) -> int:
    """Return how many variables a macro declares."""
    if function in ("bind", "filter", "map", "optFlatMap", "optMap"):
        return 1
    if function in ("all", "exists", "existsOne", "exists_one"):
        return arguments - 1
    return 2


def _is_known(node: Call) -> bool:
    if qualified_name(node) is not None:
        return True
    return node.function in (GLOBALS if node.target is None else METHODS)


def _undeclared(at: int, name: str) -> Problem:
    return Problem(at, f"undeclared reference to '{name}' (in container '')")


def _parts(node: Node) -> tuple[Node, ...]:
    match node:
        case Selection(operand=operand):
            return (operand,)
        case Indexing(operand=operand, index=index):
            return operand, index
        case Operation(operands=operands):
            return operands
        case Collection(parts=parts):
            return parts
        case Call(target=target, arguments=arguments):
            return arguments if target is None else (target, *arguments)
        case Literal() | Identifier():
            return ()


def _nodes(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += _parts(found)
