"""Label selectors: the typed form in objects and the string form in queries.

The semantics are those of k8s.io/apimachinery/pkg/labels: ``NotIn`` and ``!=``
also match objects that lack the key. An empty selector matches every object, an
absent selector matches no object.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from .meta import APIStruct
from .scalars import parse_int


class LabelSelectorRequirement(APIStruct, frozen=True):
    """One expression of a selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(APIStruct, frozen=True):
    """The selector of a spec (metav1.LabelSelector)."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


class SelectorError(ValueError):
    """A selector that cannot be evaluated; the message names the invalid part."""


class Requirement(Struct, frozen=True):
    """One condition on one label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether `labels` satisfy this condition."""
        return _OPERATORS[self.operator](labels.get(self.key), self.values)


def _compare(
    than: Callable[[int, int], bool],
) -> Callable[[str | None, frozenset[str]], bool]:
    def matches(value: str | None, values: frozenset[str]) -> bool:
        (bound,) = values
        # Upstream parses both as int64; a value that is none does not match.
        number, limit = parse_int(value or "", 64), parse_int(bound, 64)
        return number is not None and limit is not None and than(number, limit)

    return matches


_OPERATORS: Final[dict[str, Callable[[str | None, frozenset[str]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _compare(lambda value, bound: value > bound),
    "Lt": _compare(lambda value, bound: value < bound),
}


class Selector(Struct, frozen=True):
    """A conjunction of requirements.

    `exact` has the requirements of the form key = value. They are by far the most
    common, and are compared without a function call.
    """

    exact: tuple[tuple[str, str], ...] = ()
    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @property
    def is_empty(self) -> bool:
        """Tell whether there is no requirement, so that every object matches."""
        return not (self.exact or self.requirements or self.nothing)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether `labels` satisfy every requirement."""
        if self.nothing:
            return False
        for key, value in self.exact:
            if labels.get(key) != value:
                return False
        rest = self.requirements
        return not rest or all(requirement.matches(labels) for requirement in rest)


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


def compile_selector(selector: LabelSelector | None) -> Selector:
    """Return the evaluable form of a spec's selector.

    An absent selector selects nothing, an empty one everything
    (metav1.LabelSelectorAsSelector). Raises SelectorError for an unknown operator,
    for missing values, and for values of an operator that takes none.
    """
    if selector is None:
        return NOTHING
    exact = tuple(sorted((selector.match_labels or {}).items()))
    requirements = tuple(
        _compile_requirement(expression)
        for expression in selector.match_expressions or ()
    )
    return Selector(exact=exact, requirements=requirements)


def _compile_requirement(expression: LabelSelectorRequirement) -> Requirement:
    values = frozenset(expression.values or ())
    if not expression.key:
        msg = "a selector expression has no key"
        raise SelectorError(msg)
    match expression.operator:
        case "In" | "NotIn":
            if not values:
                msg = (
                    f"selector expression on {expression.key!r}: operator "
                    f"{expression.operator} needs at least one value"
                )
                raise SelectorError(msg)
        case "Exists" | "DoesNotExist":
            if values:
                msg = (
                    f"selector expression on {expression.key!r}: operator "
                    f"{expression.operator} takes no values"
                )
                raise SelectorError(msg)
        case _:
            msg = f"{expression.operator!r} is not a valid label selector operator"
            raise SelectorError(msg)
    return Requirement(expression.key, expression.operator, values)


def format_selector(selector: LabelSelector | None) -> str:
    """Return the query form, e.g. ``app=web,tier in (a,b)``, keys sorted."""
    if selector is None:
        return "<none>"
    parts = [
        (key, f"{key}={value}") for key, value in (selector.match_labels or {}).items()
    ]
    for expression in selector.match_expressions or ():
        values = ",".join(sorted(expression.values or ()))
        text = {
            "In": f"{expression.key} in ({values})",
            "NotIn": f"{expression.key} notin ({values})",
            "Exists": expression.key,
            "DoesNotExist": f"!{expression.key}",
        }.get(expression.operator, expression.key)
        parts.append((expression.key, text))
    return ",".join(text for _, text in sorted(parts))


_TOKEN: Final = re.compile(r"\s*(==|!=|=|!|\(|\)|,|<|>|[^\s=!(),<>]+)")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens = [match.group(1) for match in _TOKEN.finditer(text)]
        self._position = 0

    def peek(self) -> str:
        if self._position < len(self._tokens):
            return self._tokens[self._position]
        return ""

    def take(self) -> str:
        token = self.peek()
        self._position += 1
        return token


def parse_selector(text: str) -> Selector:
    """Parse the query form (``labelSelector=``) with all its operators.

    Raises SelectorError with the message of an API server.
    """
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    if not tokens.peek():
        return EVERYTHING
    while True:
        try:
            requirements.append(_parse_requirement(tokens))
        except SelectorError as error:
            msg = f"unable to parse requirement: {error}"
            raise SelectorError(msg) from error
        separator = tokens.take()
        if not separator:
            break
        if separator != ",":
            msg = f"found '{separator}', expected: ',' or 'end of string'"
            raise SelectorError(msg)
        if not tokens.peek():
            msg = "found '', expected: identifier after ','"
            raise SelectorError(msg)
    exact = tuple(
        (requirement.key, next(iter(requirement.values)))
        for requirement in requirements
        if requirement.operator == "In" and len(requirement.values) == 1
    )
    others = tuple(
        requirement
        for requirement in requirements
        if requirement.operator != "In" or len(requirement.values) != 1
    )
    return Selector(exact=exact, requirements=others)


def _parse_requirement(tokens: _Tokens) -> Requirement:
    negated = tokens.peek() == "!"
    if negated:
        tokens.take()
    key = tokens.take()
    if not _valid_key(key):
        msg = f"found '{key}', expected: identifier"
        raise SelectorError(msg)
    if negated:
        return Requirement(key, "DoesNotExist")
    match tokens.peek():
        case "" | ",":
            return Requirement(key, "Exists")
        case "=" | "==":
            tokens.take()
            return Requirement(key, "In", frozenset((_parse_value(tokens),)))
        case "!=":
            tokens.take()
            return Requirement(key, "NotIn", frozenset((_parse_value(tokens),)))
        case ">" | "<" as sign:
            tokens.take()
            return _parse_bound(key, sign, tokens)
        case "in" | "notin" as word:
            tokens.take()
            operator = "In" if word == "in" else "NotIn"
            return Requirement(key, operator, _parse_values(tokens))
        case other:
            msg = (
                f"found '{other}', expected: in, notin, =, ==, !=, gt, lt "
                "or 'end of string'"
            )
            raise SelectorError(msg)


def _parse_bound(key: str, sign: str, tokens: _Tokens) -> Requirement:
    bound = _parse_value(tokens)
    if not re.fullmatch(r"[+-]?\d+", bound):
        msg = f"for '{key}{sign}{bound}' the value must be an integer"
        raise SelectorError(msg)
    return Requirement(key, "Gt" if sign == ">" else "Lt", frozenset((bound,)))


def _parse_value(tokens: _Tokens) -> str:
    if tokens.peek() in ("", ","):
        return ""
    value = tokens.take()
    _check_value(value)
    return value


def _parse_values(tokens: _Tokens) -> frozenset[str]:
    if (opening := tokens.take()) != "(":
        msg = f"found '{opening}' expected: '('"
        raise SelectorError(msg)
    values: set[str] = set()
    while True:
        if tokens.peek() in (",", ")"):
            values.add("")
        else:
            value = tokens.take()
            _check_value(value)
            values.add(value)
        match tokens.take():
            case ")":
                return frozenset(values)
            case ",":
                continue
            case other:
                msg = f"found '{other}', expected: ',' or ')'"
                raise SelectorError(msg)


def _valid_key(key: str) -> bool:
    prefix, _, name = key.rpartition("/")
    return bool(_NAME.fullmatch(name)) and (not prefix or bool(_NAME.fullmatch(prefix)))


def _check_value(value: str) -> None:
    if value and not _NAME.fullmatch(value):
        msg = f"values must be valid label values, not {value!r}"
        raise SelectorError(msg)


def as_go_prints(selector: LabelSelector | None) -> str:
    """Return a selector as Go prints the struct of metav1 with ``%+v``."""
    # ``&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:…,}``
    if selector is None:
        return "nil"
    labels = sorted((selector.match_labels or {}).items())
    pairs = "".join(f"{key}: {value}," for key, value in labels)
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},"
        f"Values:[{' '.join(each.values or ())}],}},"
        for each in selector.match_expressions or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
