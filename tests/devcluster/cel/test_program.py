"""The values of expressions, as cel-go and the API server compute them."""

import time
from typing import Any

import pytest

from controller_manager.cel.syntax import SyntaxProblem
from controller_manager.devcluster.cel.evaluation import Budget, OutOfBudgetError
from controller_manager.devcluster.cel.program import Program
from controller_manager.devcluster.cel.values import EvaluationError, UInt

SELF: dict[str, Any] = {
    "n": 3,
    "d": 2.5,
    "text": "abc",
    "flag": True,
    "none": None,
    "list": [3, 1, 2],
    "names": ["a", "b"],
    "map": {"a": 1, "b": 2},
    "items": [{"name": "x", "port": 80}, {"name": "y"}],
}


def value(text: str) -> Any:
    """Return the value of an expression, of which nothing is undeclared."""
    program = Program(text)
    assert program.problems(frozenset(("self",))) == []
    return program.evaluate({"self": SELF}, Budget(10_000))


@pytest.mark.parametrize(
    "text",
    [
        # constants
        r"'a\n\x41\u00e9\101' == 'a' + '\n' + 'AéA'",
        "r'\\d' == '\\\\d' && '''a'b''' == \"a'b\"",
        "b'\\xff'.size() == 1 && b'é' == bytes('é')",
        "0x1F == 31 && 1e3 == 1000.0 && .5 < 1.0 && 5u == uint(5)",
        # arithmetic
        "7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1 && 7u % 2u == 1u",
        "1.0 / 0.0 > 1e300 && 5.0 / 2.0 == 2.5",
        "self.n + 1 == 4 && self.n * 2 - 1 == 5 && -self.n == -3",
        "'a' + 'b' == 'ab' && [1] + [2] == [1, 2]",
        # comparison
        "1 == 1.0 && 1u == 1 && 1 < 1.5 && 2u > 1 && 'a' < 'b' && false < true",
        "[1, {'a': 2.0}] == [1.0, {'a': 2}] && 'a' != 1 && null == self.none",
        "2 in self.list && !(5 in self.list) && 'a' in self.map",
        # logic and its errors
        "true || self.absent == 1",
        "self.absent == 1 || true",
        "!(false && self.absent == 1)",
        "self.n > 2 ? self.flag : self.absent",
        "self.list.exists(x, x == 1 || self.absent)",
        "!self.list.all(x, x == 1 && self.absent)",
        # fields
        "has(self.n) && !has(self.absent) && has(self.none) && !has(self.map.c)",
        "self['n'] == 3 && self.map['a'] == 1 && self.list[0] == 3",
        "self.?n.orValue(0) == 3 && self.?absent.?deeper.orValue('x') == 'x'",
        "self.map[?'c'].hasValue() == false && self.list[?1].value() == 1",
        "[1, ?self.?absent, ?self.?n] == [1, 3]",
        "{'a': 1, ?'b': self.?absent} == {'a': 1}",
        "self.?n.optMap(x, x + 1) == optional.of(4)",
        "self.?absent.or(optional.of(1)).value() == 1",
        "optional.ofNonZeroValue('') == optional.none()",
        # macros
        "self.items.all(i, i.name.size() == 1) && self.items.exists(i, has(i.port))",
        "self.items.exists_one(i, i.name == 'x')",
        "self.items.map(i, i.name) == ['x', 'y']",
        "self.list.map(x, x > 1, x * 2) == [6, 4]",
        "self.list.filter(x, x > 1) == [3, 2]",
        "self.map.all(k, self.map[k] > 0) && self.map.map(k, k) == ['a', 'b']",
        "self.list.all(i, x, i < 3 && x > 0)",
        "self.map.transformMap(k, v, v * 2) == {'a': 2, 'b': 4}",
        "self.map.transformList(k, v, v > 1, k) == ['b']",
        "cel.bind(x, self.n, x * x == 9)",
        # conversions and types
        "int('5') == 5 && int(2.9) == 2 && string(5) == '5' && double('1.5') == 1.5",
        "type(1) == int && type('a') == string && type([]) == list",
        "bool('true') && string(true) == 'true' && string(2.0) == '2'",
        "dyn(1) == 1 && string(b'a') == 'a'",
        # texts
        "self.text.startsWith('a') && self.text.endsWith('c')",
        "self.text.contains('b') && size('äö') == 2",
        "self.text.matches('^[a-c]+$') && matches(self.text, 'b')",
        "'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "'a1b22'.findAll('[0-9]+', 1) == ['1'] && 'a'.find('x') == ''",
        "'a,b'.split(',') == ['a', 'b'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && ['a', 'b'].join('-') == 'a-b'",
        "'abcd'.substring(1, 3) == 'bc' && 'abc'.charAt(1) == 'b'",
        "' Ä '.trim() == 'Ä' && 'aÄ'.upperAscii() == 'AÄ' && 'AÄ'.lowerAscii() == 'aÄ'",
        "'aaa'.replace('a', 'b', 2) == 'bba' && 'abc'.reverse() == 'cba'",
        "'abcb'.indexOf('b') == 1 && 'abcb'.lastIndexOf('b') == 3",
        "'%s is %d of %.1f%%'.format(['a', 1, 2.25]) == 'a is 1 of 2.2%'",
        "'%s %x'.format([[1, 'a', null], 255]) == '[1, a, null] ff'",
        # lists and sets
        "[1, 2].isSorted() && !self.list.isSorted() && [].isSorted()",
        "self.list.sum() == 6 && self.list.min() == 1 && self.list.max() == 3",
        "self.list.indexOf(2) == 2 && [1, 1].lastIndexOf(1) == 1",
        "sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2])",
        "sets.equivalent([1, 2, 2], [2, 1])",
        # times
        "duration('90s') == duration('1m30s') && duration('1h').getMinutes() == 60",
        "timestamp('2024-01-31T10:00:00Z').getFullYear() == 2024",
        "timestamp('0001-01-01T00:00:00Z') == timestamp(-62135596800)",
        "timestamp('9999-12-31T23:59:59Z') == timestamp(253402300799)",
        "timestamp('0000-12-31T23:59:59-00:01').getFullYear() == 1",
        "timestamp('2024-01-31T23:00:00Z').getHours('+02:00') == 1",
        (
            "timestamp('2024-01-31T10:00:00Z') + duration('24h')"
            " > timestamp('2024-02-01T09:00:00Z')"
        ),
        "timestamp('2024-01-31T10:00:00Z').getDayOfWeek() == 3",
        # Kubernetes
        "isURL('https://a.b/c') && !isURL('a b')",
        "url('https://a.b:80/c?d=e').getPort() == '80'",
        "url('https://[::1]:80/c?d=e').getHostname() == '::1'",
        "url('https://a.b/c?d=e').getQuery() == {'d': ['e']}",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && isQuantity('50m')",
        "quantity('1k').add(24) == quantity('1024') && quantity('2').asInteger() == 2",
        "quantity('1').compareTo(quantity('2')) == -1 && !isQuantity('x')",
        "ip('::1').isLoopback() && ip('1.2.3.4').family() == 4 && isIP('::')",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && isCIDR('::/0')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        "cidr('10.0.0.0/8').prefixLength() == 8",
        "cidr('10.0.0.0/8').ip().family() == 4",
    ],
)
def test_an_expression_is_true(text: str) -> None:
    """Each of these is on a real API server."""
    assert value(text) is True


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("self.absent", "no such key: absent"),
        ("self.list[5]", "index out of bounds: 5"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("1 + 1.0", "no such overload"),
        ("1 + true", "no such overload"),
        ("'a' < 1", "no such overload"),
        ("!1", "no such overload"),
        ("1 ? 2 : 3", "no such overload"),
        ("self.n.size()", "no such overload"),
        ("self.text.startsWith(1)", "no such overload"),
        ("self.text.startsWith()", "no such overload"),
        ("self.n.all(x, true)", "no such overload"),
        ("self.list.all(x, x)", "no such overload"),
        ("false || self.absent", "no such key: absent"),
        ("optional.none().value()", "optional.none() dereference"),
        ("[].max()", "max called on empty list"),
        ("'a'.matches('(')", "error parsing regexp: missing closing ): `(`"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("bool('x')", "type conversion error from 'x' to 'bool'"),
        ("timestamp('9999-12-31T23:59:59-00:01')", "timestamp overflow"),
        ("timestamp('0001-01-01T00:00:00+00:01')", "timestamp overflow"),
        ("timestamp('0000-12-31T23:59:59Z')", "timestamp overflow"),
        ("timestamp(253402300800)", "timestamp overflow"),
        ("timestamp(-62135596801)", "timestamp overflow"),
        ("timestamp(9223372036854775807)", "timestamp overflow"),
        ("duration('x')", 'time: invalid duration "x"'),
    ],
)
def test_an_expression_without_a_value_says_why(text: str, problem: str) -> None:
    """In the words of cel-go."""
    with pytest.raises(EvaluationError) as error:
        value(text)
    assert str(error.value) == problem


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("self.a && frob(self)", ["undeclared reference to 'frob' (in container '')"]),
        ("self.frob()", ["undeclared reference to 'frob' (in container '')"]),
        ("other", ["undeclared reference to 'other' (in container '')"]),
        ("self.all(x, x > y)", ["undeclared reference to 'y' (in container '')"]),
        ("cel.bind(x, y, x)", ["undeclared reference to 'y' (in container '')"]),
        ("self.all(1, true)", ["argument must be a simple name"]),
        ("has(self)", ["invalid argument to has() macro"]),
        ("a.M{f: 1}", ["undeclared reference to 'a.M' (in container '')"]),
    ],
)
def test_what_nothing_stands_for_is_found(text: str, problems: list[str]) -> None:
    """Before the expression is evaluated."""
    found = Program(text).problems(frozenset(("self",)))
    assert [each.message for each in found] == problems


def test_a_program_knows_the_names_that_it_uses() -> None:
    """Also inside of macros."""
    program = Program("self.all(x, x in oldSelf)")
    assert program.uses("oldSelf")
    assert not program.uses("other")


@pytest.mark.parametrize("text", ["1 +", "'a", "99999999999999999999", "'\\q'"])
def test_a_text_that_is_no_expression_is_refused(text: str) -> None:
    """When it is read."""
    with pytest.raises(SyntaxProblem):
        Program(text)


def test_an_expression_ends_when_its_budget_does() -> None:
    """However many loops are in each other."""
    loop = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    text = "true"
    for name in "abcdefgh":
        text = f"{loop}.all({name}, {text})"
    start = time.perf_counter()
    with pytest.raises(OutOfBudgetError):
        Program(text).evaluate({}, Budget(10_000))
    assert time.perf_counter() - start < 5


def outcome(text: str) -> str:
    """Return the value of an expression, or why it has none."""
    try:
        return str(Program(text).evaluate({}, Budget(10_000)))
    except (EvaluationError, SyntaxProblem) as error:
        return str(error)


@pytest.mark.parametrize("depth", [10, 500, 5000])
def test_an_expression_that_is_nested_deeply_does_no_harm(depth: int) -> None:
    """It has its value, or it is refused when it is read or evaluated."""
    too_deep = "the expression is nested too deeply"
    assert outcome(f"{'!' * depth}true") in ("True", too_deep)
    assert outcome(f"{'(' * depth}true{')' * depth}") in ("True", too_deep)


def test_a_uint_stays_one() -> None:
    """Its type is not that of an int."""
    found = value("5u + 1u")
    assert (type(found), found) == (UInt, 6)
