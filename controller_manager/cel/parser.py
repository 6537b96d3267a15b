"""Reads an expression (the parser rules of CEL.g4).

The messages about unexpected tokens are those of the parser that ANTLR makes of CEL.g4.
"""

from collections.abc import Iterable
from typing import Final

from . import syntax

_LITERALS: Final = ("int", "uint", "double", "string", "bytes")
_CONSTANTS: Final = {"true": "bool", "false": "bool", "null": "null_type"}

_PRECEDENCE: Final = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
"""Operators with two operands; those with the highest number bind first."""


def parse(text: str) -> syntax.Node:
    """Return the node of an expression.

    Raises SyntaxProblem for a text that is none, or is nested too deeply. Its message
    has all errors of the lexer, and the first one of the parser.
    """
    found, problems = syntax.scan(text)
    try:
        node = _Parser(found).whole()
        if not problems:
            return node
    except _UnexpectedError as error:
        problems.append(error.problem)
    except RecursionError:
        msg = "the expression is nested too deeply"
        raise syntax.SyntaxProblem(msg) from None
    raise syntax.SyntaxProblem(syntax.text_of(text, problems))


class _UnexpectedError(Exception):
    """The first token that is not expected."""

    def __init__(self, token: syntax.Token, message: str) -> None:
        super().__init__(message)
        self.problem = syntax.Problem(token.at, message)


class _Parser:
    """Reads tokens from the left to the right."""

    def __init__(self, found: list[syntax.Token]) -> None:
        self._tokens = found
        self._position = 0
        self._also: dict[int, tuple[str, ...]] = {}
        """The signs that could stand in the place of an operand, by its position."""

    def whole(self) -> syntax.Node:
        node = self._expression()
        if self._next.kind != "end":
            verb = "extraneous" if self._following.kind == "end" else "mismatched"
            shown = _shown(self._next)
            message = f"Syntax error: {verb} input {shown} expecting <EOF>"
            raise _UnexpectedError(self._next, message)
        return node

    # Tokens

    @property
    def _following(self) -> syntax.Token:
        """The token after the next one; the last one stands for itself."""
        return self._tokens[min(self._position + 1, len(self._tokens) - 1)]

    @property
    def _next(self) -> syntax.Token:
        return self._tokens[self._position]

    def _is_next(self, *texts: str) -> bool:
        return self._next.kind in ("sign", "name") and self._next.text in texts

    def _taken(self, *texts: str) -> syntax.Token | None:
        if not self._is_next(*texts):
            return None
        self._position += 1
        return self._tokens[self._position - 1]

    def _take(self, sign: str) -> syntax.Token:
        if (taken := self._taken(sign)) is None:
            raise self._no_sign(sign)
        return taken

    def _take_name(self, *kinds: str) -> syntax.Token:
        """Take a name of one of these kinds, which stands after a dot."""
        token = self._next
        if token.kind not in kinds:
            message = f"Syntax error: no viable alternative at input '.{token.text}'"
            raise _UnexpectedError(token, message)
        self._position += 1
        return token

    def _no_sign(self, *signs: str) -> _UnexpectedError:
        message = _no_sign(self._next, self._following, *signs)
        return _UnexpectedError(self._next, message)

    def _no_operand(self) -> _UnexpectedError:
        also = self._also.get(self._position, ())
        message = _no_operand(self._next, self._following, also)
        return _UnexpectedError(self._next, message)

    def _has_more(self, closing: str, *, is_first: bool) -> bool:
        """Tell whether a further item follows; take the comma or the closing sign."""
        if is_first:
            signs = (closing,) if closing == ")" else (closing, ",", "?")
            self._also[self._position] = signs
        if self._taken(closing) is not None:
            return False
        if is_first:
            return True
        if self._taken(",") is None:
            others = () if closing == ")" else (",",)
            raise self._no_sign(closing, *others)
        if self._taken(closing) is not None:
            return False
        if closing != ")" and not begins_operand(self._next) and not self._is_next("?"):
            raise self._no_sign(closing)
        return True

    # Rules

    def _expression(self) -> syntax.Node:
        condition = self._operation(1)
        sign = self._taken("?")
        if sign is None:
            return condition
        yes = self._operation(1)
        self._take(":")
        return syntax.Operation(sign.at, "?:", (condition, yes, self._expression()))

    def _operation(self, lowest: int) -> syntax.Node:
        left = self._unary()
        while True:
            operator = self._next
            strength = _PRECEDENCE.get(operator.text, 0)
            if strength < lowest or not self._is_next(operator.text):
                return left
            self._position += 1
            right = self._operation(strength + 1)
            left = syntax.Operation(operator.at, operator.text, (left, right))

    def _unary(self) -> syntax.Node:
        sign = self._taken("!", "-")
        if sign is None:
            return self._member()
        return syntax.Operation(sign.at, sign.text, (self._unary(),))

    def _member(self) -> syntax.Node:
        node = self._primary()
        while (sign := self._taken(".", "[")) is not None:
            step = self._indexed if sign.text == "[" else self._selected
            node = step(node, sign)
        return node

    def _indexed(self, node: syntax.Node, sign: syntax.Token) -> syntax.Node:
        is_optional = self._taken("?") is not None
        index = self._expression()
        self._take("]")
        return syntax.Indexing(sign.at, node, index, is_optional)

    def _selected(self, node: syntax.Node, sign: syntax.Token) -> syntax.Node:
        is_optional = self._taken("?") is not None
        field = self._take_name("name", "quoted")
        name = field.text.strip("`")
        if not is_optional and (opening := self._taken("(")) is not None:
            return syntax.Call(opening.at, node, name, self._list(")"))
        is_quoted = field.kind == "quoted"
        if not is_optional and not is_quoted and (brace := self._taken("{")):
            return self._message(brace, syntax.Selection(sign.at, node, name))
        return syntax.Selection(sign.at, node, name, is_optional, is_quoted)

    def _primary(self) -> syntax.Node:
        token = self._next
        if not begins_operand(token) or token.text in ("!", "-"):
            raise self._no_operand()
        self._position += 1
        match token.kind, token.text:
            case kind, _ if kind in _LITERALS:
                return syntax.Literal(token.at, kind)
            case "name", text if text in _CONSTANTS:
                return syntax.Literal(token.at, _CONSTANTS[text])
            case "name", _:
                return self._named(token)
            case "sign", "(":
                node = self._expression()
                self._take(")")
                return node
            case "sign", "[":
                return self._items(token)
            case "sign", "{":
                return self._map(token)
            case "sign", ".":
                return self._named(self._take_name("name"))
        raise AssertionError(token)  # begins_operand has refused all others

    def _named(self, token: syntax.Token) -> syntax.Node:
        if (opening := self._taken("(")) is not None:
            return syntax.Call(opening.at, None, token.text, self._list(")"))
        if (brace := self._taken("{")) is not None:
            return self._message(brace, syntax.Identifier(token.at, token.text))
        return syntax.Identifier(token.at, token.text)

    def _list(self, closing: str) -> tuple[syntax.Node, ...]:
        """Read expressions up to a sign that closes them; a comma may end them."""
        return tuple(node for node, _ in self._optional_list(closing))

    def _optional_list(self, closing: str) -> list[tuple[syntax.Node, bool]]:
        """Read expressions, and whether a question mark stands before each."""
        items: list[tuple[syntax.Node, bool]] = []
        while self._has_more(closing, is_first=not items):
            is_optional = self._taken("?") is not None
            items.append((self._expression(), is_optional))
        return items

    def _items(self, opening: syntax.Token) -> syntax.Node:
        items = self._optional_list("]")
        optional = tuple(number for number, item in enumerate(items) if item[1])
        nodes = tuple(node for node, _ in items)
        return syntax.Collection(opening.at, nodes, optional=optional)

    def _map(self, opening: syntax.Token) -> syntax.Node:
        parts: list[syntax.Node] = []
        optional: list[int] = []
        while self._has_more("}", is_first=not parts):
            if self._taken("?") is not None:
                optional.append(len(parts) + 1)
            parts.append(self._expression())
            self._take(":")
            parts.append(self._expression())
        return syntax.Collection(opening.at, tuple(parts), "map", tuple(optional))

    def _message(self, opening: syntax.Token, type_: syntax.Node) -> syntax.Node:
        """Read the fields of a message; their names are no expressions."""
        parts: list[syntax.Node] = []
        names: list[str] = []
        optional: list[int] = []
        while self._has_more("}", is_first=not parts):
            if self._taken("?") is not None:
                optional.append(len(parts))
            names.append(self._take_name("name", "quoted").text.strip("`"))
            self._take(":")
            parts.append(self._expression())
        shape = tuple(optional), tuple(names), _dotted(type_)
        return syntax.Collection(opening.at, tuple(parts), "message", *shape)


def _dotted(node: syntax.Node) -> str:
    """Return names that are joined by dots, "" for anything else."""
    steps: list[str] = []
    while isinstance(node, syntax.Selection) and not node.is_optional:
        steps.append(node.field)
        node = node.operand
    if not isinstance(node, syntax.Identifier):
        return ""
    return ".".join([node.name, *reversed(steps)])


# The messages about unexpected tokens.

_ORDER: Final = (
    *("'['", "']'", "'{'", "'}'", "'('", "')'", "'.'", "','", "'-'", "'!'", "'?'"),
    *("'true'", "'false'", "'null'", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING"),
    *("BYTES", "IDENTIFIER"),
)
_NO_OPERANDS: Final = frozenset(("']'", "'}'", "')'", "','", "'?'"))
_BEGINNINGS: Final = frozenset("[{(.-!")
_ENDINGS: Final = frozenset(")]}")
_AFTER_ENDINGS: Final = frozenset(
    ("", "[", "]", "{", "}", ")", ".", ",", "-", "?", ":", "+", "*", "/", "%", "in")
) | {"==", "!=", "<", "<=", ">", ">=", "&&", "||"}


def begins_operand(token: syntax.Token) -> bool:
    """Tell whether a token can begin an operand."""
    if token.kind == "sign":
        return token.text in _BEGINNINGS
    return token.kind != "end" and token.text != "in"


def _no_operand(
    token: syntax.Token, following: syntax.Token, also: Iterable[str]
) -> str:
    """Return the message for a token that begins no operand.

    `also` are the signs that could stand in its place, too.
    """
    others = {f"'{each}'" for each in also}
    wanted = [each for each in _ORDER if each not in _NO_OPERANDS - others]
    verb = "extraneous" if begins_operand(following) else "mismatched"
    return f"Syntax error: {verb} input {_shown(token)} expecting {_set(wanted)}"


def _no_sign(token: syntax.Token, following: syntax.Token, *signs: str) -> str:
    """Return the message for a token in the place of one of these signs."""
    wanted = [f"'{each}'" for each in signs]
    verb = "mismatched"
    if token.kind != "end" and following.text in signs:
        verb = "extraneous"
    elif len(signs) == 1 and signs[0] in _ENDINGS and token.text in _AFTER_ENDINGS:
        return f"Syntax error: missing {wanted[0]} at {_shown(token)}"
    return f"Syntax error: {verb} input {_shown(token)} expecting {_set(wanted)}"


def _shown(token: syntax.Token) -> str:
    return "'<EOF>'" if token.kind == "end" else f"'{token.text}'"


def _set(wanted: list[str]) -> str:
    (first, *others) = wanted
    return f"{{{', '.join(wanted)}}}" if others else first
