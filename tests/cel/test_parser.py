"""Expressions are read as CEL.g4 says."""

import pytest

from controller_manager.cel.parser import parse
from controller_manager.cel.syntax import (
    Call,
    Collection,
    Identifier,
    Indexing,
    Literal,
    Node,
    Operation,
    Selection,
    SyntaxProblem,
)

A, B = Identifier(0, "a"), Identifier(4, "b")

PARSED: dict[str, Node] = {
    "a": A,
    " (a) // why": Identifier(2, "a"),
    "a.b": Selection(1, A, "b"),
    "a.?b": Selection(1, A, "b", is_optional=True),
    "a.`b-c`": Selection(1, A, "b-c", is_quoted=True),
    "a[1]": Indexing(1, A, Literal(2, "int")),
    "a[?1]": Indexing(1, A, Literal(3, "int"), is_optional=True),
    "a.f(1u)": Call(3, A, "f", (Literal(4, "uint"),)),
    "f(a,)": Call(1, None, "f", (Identifier(2, "a"),)),
    "a + b": Operation(2, "+", (A, B)),
    "a ? 1 : 2": Operation(2, "?:", (A, Literal(4, "int"), Literal(8, "int"))),
    "!a": Operation(0, "!", (Identifier(1, "a"),)),
    "[1, 2]": Collection(0, (Literal(1, "int"), Literal(4, "int"))),
    "[1, ?a]": Collection(0, (Literal(1, "int"), Identifier(5, "a")), optional=(1,)),
    "{'k': 1}": Collection(0, (Literal(1, "string"), Literal(6, "int")), "map"),
    "{?'k': a}": Collection(
        0, (Literal(2, "string"), Identifier(7, "a")), "map", optional=(1,)
    ),
    "M{f: 1}": Collection(1, (Literal(5, "int"),), "message", (), ("f",), "M"),
    "a.M{?`f-g`: 1}": Collection(
        3, (Literal(12, "int"),), "message", (0,), ("f-g",), "a.M"
    ),
}

OPERANDS = (
    "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, "
    "NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


@pytest.mark.parametrize("text", PARSED)
def test_an_expression_is_read(text: str) -> None:
    """With the offsets that messages of cel-go name."""
    assert parse(text) == PARSED[text]


def shape(node: Node) -> str:
    match node:
        case Operation(operator=operator, operands=operands):
            return f"({f' {operator} '.join(map(shape, operands))})"
        case Identifier(name=name):
            return name
    return "?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a || b && c", "(a || (b && c))"),
        ("a && b || c && d", "((a && b) || (c && d))"),
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a < b == c", "((a < b) == c)"),
        ("a in b && c", "((a in b) && c)"),
        ("a ? b : c ? d : e", "(a ?: b ?: (c ?: d ?: e))"),
        ("a || b ? c : d", "((a || b) ?: c ?: d)"),
    ],
)
def test_operators_bind_as_in_cel(text: str, expected: str) -> None:
    assert shape(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("0x1F", "int"),
        ("12u", "uint"),
        ("1.5e3", "double"),
        (".5", "double"),
        ("1e9", "double"),
        ("'it\\'s'", "string"),
        ('r"\\d+"', "string"),
        ("'''a\n'b'''", "string"),
        ('b"x"', "bytes"),
        ("true", "bool"),
        ("null", "null_type"),
    ],
)
def test_literals_have_types(text: str, type_: str) -> None:
    assert parse(text) == Literal(0, type_)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f"1:1: Syntax error: mismatched input '<EOF>' {OPERANDS}\n | \n | ^"),
        (
            "a b",
            "1:3: Syntax error: extraneous input 'b' expecting <EOF>\n | a b\n | ..^",
        ),
        (
            "object.x in [1, 2,",
            (
                "1:19: Syntax error: missing ']' at '<EOF>'\n | object.x in [1, 2,\n "
                "| ..................^"
            ),
        ),
        (
            "f(!(l in r.s))) ",
            (
                "1:15: Syntax error: extraneous input ')' expecting <EOF>\n "
                "| f(!(l in r.s))) \n | ..............^"
            ),
        ),
        (
            "!(lin a.b)",
            (
                "1:7: Syntax error: mismatched input 'a' expecting ')'\n"
                " | !(lin a.b)\n "
                "| ......^"
            ),
        ),
        (
            "{",
            (
                "1:2: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '}', "
                "'(', '.', ',', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, "
                "NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | {\n | .^"
            ),
        ),
        (
            "dummy === 1",
            (
                "1:9: Syntax error: token recognition error at: '= '\n | dummy === 1\n "
                "| ........^"
            ),
        ),
        (
            "*@a | b",
            (
                f"1:1: Syntax error: extraneous input '*' {OPERANDS}\n"
                " | *@a | b\n | ^\n"
                "ERROR: <input>:1:2: Syntax error: token recognition error at: '@'\n"
                " | *@a | b\n | .^\n"
                "ERROR: <input>:1:5: Syntax error: token recognition error at: '| '\n"
                " | *@a | b\n | ....^"
            ),
        ),
    ],
)
def test_an_invalid_one_has_the_errors_of_cel_go(text: str, problem: str) -> None:
    with pytest.raises(SyntaxProblem) as raised:
        parse(text)
    assert str(raised.value) == f"ERROR: <input>:{problem}"


def test_an_expression_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(SyntaxProblem, match=r"^the expression is nested too deeply$"):
        parse("(" * 5000)
