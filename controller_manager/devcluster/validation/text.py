"""Tables of rules as text, as the kinds have them.

A line is about a field, the fields below it are indented, and the causes come in the
order of the lines::

    spec:                                the object in a field
      replicas: not-negative             a rule about a field of it
      type: enum Recreate Rolling if has strategy
      ports[]:                           each object of a list
        name: required if several        `several` is a condition, a function
        name: label                      a check of the value
        name: unique
        hostPort, port: port             the same for two fields
      addresses[]: address               a check of each item of a list of values
      names[]: label unique              duplicates are refused too; or ``enum A B``
      amounts{}: quantity                a check of each value of a map
      amounts{}: qualified keys          a check of each key of a map
      when type is A B:                  rules under a condition
        a: required "for this type"      a text in quotes is the detail
      else:
        a: forbidden "not for this type"
      include POD_TEMPLATE               another table, for the same object
      hook odd_ones                      a function, for a rule that no word says

Flags follow the name of an object: ``spec always:`` (its rules apply also if it is
missing), ``rules[] outer:`` (its rules keep the outer object), ``spec change:`` (in a
table about updates: the new and the old object in the field).

These rules end with flags, the condition and the detail, in this order:

- ``required`` (also before another rule: ``required label``), ``forbidden``,
  ``refused`` (as forbidden, and shows the value),
  ``invalid`` (under a condition), ``error`` (the same, without the value); ``self``
  stands for the object in place of a field
- ``enum A B``, ``one-of A B`` (required, and the cause lists the values),
  ``range 1 5``, ``at-least 1``, ``at-most 5``, ``not-negative``
- ``not-above other`` (the number in another field)
- ``matches "REGEX" "detail"`` (the whole text)
- ``longest 63`` (bytes), ``most 20`` (items), ``unique``, ``immutable``, ``kept`` (the
  same, but the cause forbids the change)
- ``union: "must have one" "has several"``: the object has one of the fields below,
  or with ``union besides a b:`` one field except these
- the checks of `CHECKS`, and functions that the table is given

Flags: ``pointer`` (an empty value counts as present, for unique too), ``filled`` (an
empty value counts as absent, for forbidden and enum), ``default 0`` (the value of a
missing field: ``null``, ``empty`` or a number), ``at name`` (the field that the cause
is about, ``self`` for the object), ``by key`` and ``show value`` (functions, for
unique).

Conditions: ``has a b`` (one of them), ``lacks a b`` (both), ``filled a b`` and
``empty a b`` (the same, with empty values as absent ones), ``changes a b`` (from the
outer object), ``a is X Y``, ``a is-not X``, ``a above b`` and ``a not-above 5``
(numbers, or counts of items), a function; ``outer`` before them means the outer object;
``and`` joins them.
"""

import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from importlib import import_module
from operator import itemgetter
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import names

from . import rules, values
from .rules import Condition, Errors, Rule

CHECKS: Final[dict[str, rules.Check]] = {
    "address": values.validate_address,
    "annotations": names.validate_annotations,
    "config-key": names.validate_config_key,
    "descending-path": values.validate_descending_path,
    "domain-path": values.validate_domain_prefixed_path,
    "driver": values.validate_driver,
    "endpoint-address": values.validate_endpoint_address,
    "host": names.validate_host,
    "int-or-percent": values.validate_int_or_percent,
    "label": names.validate_label,
    "label-value": values.validate_label_value,
    "labels": names.validate_labels,
    "path-segment": names.validate_path_segment,
    "port": values.validate_port_number,
    "port-name": values.validate_port_name,
    "port-or-name": values.validate_port,
    "positive-quantity": values.validate_positive_quantity,
    "qualified": names.validate_qualified_name,
    "quantity": values.validate_quantity,
    "selector": values.validate_selector,
    "service-name": names.validate_service_name,
    "subdomain": names.validate_subdomain,
}
_TOKEN: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
_WORDS: Final = {"null": None, "empty": "", "true": True, "false": False}
_SHARED: Final = (".containers", ".pods")
_FLAGS: Final = ("at", "by", "default", "show")


Names = Mapping[str, Any]


class RuleError(Exception):
    """A table is wrong; the text names the line and the mistake."""


def table(text: str, names: Names | None = None) -> Rule:
    """Return the table of a text, which is compiled when it is used first.

    The functions and tables that the text names are those of the calling module, or of
    `names`.
    """
    return _Text(text, calling_module() if names is None else names)


def calling_module() -> Names:
    """Return the variables of the module that calls the caller of this function."""
    return sys._getframe(2).f_globals  # noqa: SLF001 - as collections.namedtuple does


def named(names: Names, word: str) -> Any:
    """Return what a word of a text stands for, in the variables of a module.

    The variable may be private: the word ``share`` finds ``_share``, too. The word
    ``module.name`` is a variable of an imported module. The tables of this package are
    known without an import. Raises LookupError.
    """
    module, _, name = word.rpartition(".")
    within = vars(names[module]) if module else names
    shared = [vars(import_module(each, __package__)) for each in _SHARED]
    for known, start in ((within, "_"), (within, ""), *((each, "") for each in shared)):
        if (found := known.get(start + name)) is not None:
            return found
    raise LookupError(f"the module has no {word}")


class _Text(Rule):
    """A table whose text is compiled when it is used first."""

    __slots__ = ("_names", "_text")

    def __init__(self, text: str, names: Names) -> None:
        super().__init__(self._first)
        self._text, self._names = text, names

    def _first(self, obj: JSON, path: str, errors: Errors, outer: JSON) -> None:
        self._compile()
        self.run(obj, path, errors, outer)

    def _compile(self) -> None:
        if not self.beside:
            self.beside = _Compiler(self._text, self._names).compiled()
            self.run = rules.joined(self.beside)

    def parts(self) -> Iterator[Rule]:
        """Yield the rules, and those of the tables that it includes."""
        self._compile()
        for rule in self.beside:
            yield from rule.parts()


class _Compiler:
    def __init__(self, text: str, names: Names) -> None:
        self._names = names
        self._lines: list[tuple[int, str]] = []
        for line in text.splitlines():
            found = line.strip()
            if found.startswith(('"', "if ", "and ")):
                indent, before = self._lines.pop()
                self._lines.append((indent, f"{before} {found}"))
            elif found:
                self._lines.append((len(line) - len(line.lstrip()), found))
        self._lines.reverse()

    def compiled(self) -> list[Rule]:
        """Compile the whole text; raises RuleError."""
        found = self._block(self._lines[-1][0])
        if self._lines:
            raise RuleError(f"a table indents wrongly: {self._lines[-1][1]}")
        return found

    def _block(self, indent: int) -> list[Rule]:
        found = []
        while self._lines and self._lines[-1][0] == indent:
            line = self._lines.pop()[1]
            try:
                found += self._line(line, indent)
            except (LookupError, ValueError, TypeError) as error:
                raise RuleError(f"in the rule {line!r}: {error}") from None
        return found

    def _below(self, indent: int) -> list[Rule]:
        if not self._lines or self._lines[-1][0] <= indent:
            raise ValueError("no indented rules follow")
        return self._block(self._lines[-1][0])

    def _line(self, line: str, indent: int) -> list[Rule]:
        head, colon, rest = line.partition(":")
        word, *more = head.split()
        if word == "union":
            return [self._union(more, rest, indent)]
        if rest:
            return self._about([each.strip() for each in head.split(",")], rest)
        if not colon:
            found = [named(self._names, name) for name in more]
            return list(map(rules.hook, found)) if word == "hook" else found
        if word == "when":
            return [self._when(more, indent)]
        flags = dict.fromkeys(more, True)
        if flags.pop("change", False):
            return [rules.changed(word, self._below(indent))]
        make = rules.each if word.endswith("[]") else rules.nested
        return [make(word.removesuffix("[]"), self._below(indent), **flags)]

    def _when(self, words: list[str], indent: int) -> Rule:
        condition, then = self._condition(words), self._below(indent)
        others: list[Rule] = []
        if self._lines and self._lines[-1] == (indent, "else:"):
            self._lines.pop()
            others = self._below(indent)
        return rules.when(condition, then, others)

    def _union(self, besides: list[str], details: str, indent: int) -> Rule:
        """Compile ``union: "detail of none" "detail of many"``.

        With ``union besides a b:``, all fields of the object but these are members. A
        member without rules is ``name: any``.
        """
        _, (missing, many) = _split(details)
        found = [part for rule in self._below(indent) for part in rule.parts()]
        members = {rule.fields[0]: rule.below for rule in found}
        return rules.union(members, besides[1:], missing, many)

    def _condition(self, words: list[str]) -> Condition:
        if "and" in words:
            place = words.index("and")
            left = self._condition(words[:place])
            right = self._condition(words[place + 1 :])
            return lambda obj, outer: left(obj, outer) and right(obj, outer)
        if words[0] == "outer":
            of_outer = self._condition(words[1:])
            return lambda _, outer: of_outer(outer, outer)
        if test := _TESTS.get(words[0]):
            names = words[1:]
            return lambda obj, outer: test(obj, outer, names)
        if len(words) > 1 and words[1].endswith("above"):
            name, relation, most = words
            wanted = relation == "above"
            return lambda obj, _: (_size(obj, name) > _size(obj, most)) is wanted
        if len(words) > 1 and words[1] in ("is", "is-not"):
            wanted, name = words[1] == "is", words[0]
            values = tuple(_value(word) for word in words[2:])
            return lambda obj, _: (obj.get(name) in values) is wanted
        (word,) = words
        condition: Condition = named(self._names, word)
        return condition

    def _about(self, fields: list[str], rest: str) -> list[Rule]:
        words, details = _split(rest)
        if words[:1] == ["required"] and {*words[1:2]} - {*_FLAGS, "if", "pointer"}:
            both = ("required", rest.replace("required", "", 1))
            return [rule for each in both for rule in self._about(fields, each)]
        detail, condition = " ".join(details), None
        if "if" in words:
            place = words.index("if")
            condition = self._condition(words[place + 1 :])
            words = words[:place]
        word, *args = words
        if word == "matches":
            pattern, *details = details
            detail, args = " ".join(details), [pattern, *args]
        flags: dict[str, Any] = {}
        while len(args) > 1 and args[-2] in _FLAGS:
            *args, flag, value = args
            flags[flag] = _value(value) if flag == "default" else value
        while args and args[-1] in ("pointer", "filled"):
            flags[args.pop()] = True
        if word == "unique" and not fields[0].endswith("[]"):
            return [self._unique(fields, flags, detail, condition)]
        found = [
            rule
            for field in fields
            for rule in self._rule(field, word, args, flags, detail)
        ]
        return [rules.when(condition, found, [])] if condition else found

    def _unique(
        self,
        fields: list[str],
        flags: dict[str, Any],
        detail: str,
        condition: Condition | None,
    ) -> Rule:
        at = flags.get("at", fields[0] if len(fields) == 1 else "self")
        show = named(self._names, flags["show"]) if "show" in flags else None
        if show is None and len(fields) > 1 and at in fields:
            show = itemgetter(at)
        key = _key(fields, empty_too="pointer" in flags)
        if "by" in flags:
            key = named(self._names, flags["by"])
        place = "" if at == "self" else at
        if not condition:
            return rules.unique(fields, place, key, show, detail)
        applies = condition
        return rules.unique(
            fields,
            place,
            lambda obj: key(obj) if applies(obj, obj) else None,
            show,
            detail,
        )

    def _rule(
        self, name: str, word: str, args: list[str], flags: dict[str, Any], detail: str
    ) -> list[Rule]:
        if name == "self":
            name = rules.SELF
        if name.endswith("[]"):
            return [self._items(name[:-2], [word, *args])]
        if name.endswith("{}"):
            return [rules.entries(name[:-2], self._check(word), keys=bool(args))]
        if make := _WITH_DETAIL.get(word):
            at = flags.pop("at", name)
            at = rules.SELF if at == "self" else at
            return [make(name, detail, at, **flags)]
        if several := _PLAIN.get(word):
            return several(name, args, detail, **flags)
        return [rules.field(name, self._check(word), **flags)]

    def _items(self, name: str, words: list[str]) -> Rule:
        unique = words[-1] == "unique"
        word, *values = words[:-1] if unique and len(words) > 1 else words
        if word == "unique":
            return rules.items(name, lambda *_: (), unique=True)
        check = rules.member(values) if word == "enum" else self._check(word)
        return rules.items(name, check, unique=unique)

    def _check(self, word: str) -> rules.Check:
        return CHECKS.get(word) or named(self._names, word)


def _key(fields: Sequence[str], *, empty_too: bool) -> Callable[[JSON], Hashable]:
    """Return a function that returns the fields that `unique` compares."""
    first, *more = fields
    if empty_too and not more:
        return lambda obj: obj.get(first, "")
    if not more:
        return lambda obj: obj.get(first) or None
    return lambda obj: tuple(obj.get(name, "") for name in fields)


def _size(obj: JSON, name: str) -> Any:
    """Return a number, or the number of items in a field; 0 for an absent field."""
    if name.isdecimal():
        return int(name)
    value = obj.get(name) or 0
    return value if isinstance(value, int) else len(value)


_TESTS: Final[Mapping[str, Callable[[JSON, JSON, Sequence[str]], bool]]] = {
    "has": lambda obj, _, names: any(obj.get(each) is not None for each in names),
    "lacks": lambda obj, _, names: all(obj.get(each) is None for each in names),
    "filled": lambda obj, _, names: any(obj.get(each) for each in names),
    "empty": lambda obj, _, names: not any(obj.get(each) for each in names),
    "changes": lambda obj, outer, names: any(
        obj.get(each) != outer.get(each) for each in names
    ),
}


def _split(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a text, and its texts in quotes."""
    found = list(_TOKEN.finditer(text))
    words = [each[2] for each in found if each[2] is not None]
    texts = [each[1].replace('\\"', '"') for each in found if each[1] is not None]
    return words, texts


def _value(word: str) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    return int(word) if re.fullmatch(r"-?\d+", word) else word


def _one_of(name: str, values: list[str], _: str) -> list[Rule]:
    listed = " ".join(f'"{value}"' for value in values)
    needed = rules.required(name, f"valid values: [{listed}]", name)
    return [needed, rules.enum(name, values, filled=True)]


def _matches(name: str, args: list[str], detail: str, **flags: Any) -> list[Rule]:
    pattern = re.compile(args[0], re.DOTALL)

    def check(value: str, _: str) -> Iterator[str]:
        if not pattern.fullmatch(value):
            yield detail

    return [rules.field(name, check, **flags)]


def _number(
    least: int | None, most: int | None, usual: str
) -> Callable[..., list[Rule]]:
    """Return the maker of rules with these bounds; `None` is the next argument."""

    def make(name: str, args: list[str], detail: str, **flags: Any) -> list[Rule]:
        given = iter(map(int, args))
        low = next(given) if least is None else least
        high = next(given) if most is None else most
        text = detail or usual.format(low=low, high=high)
        return [rules.number(name, (low, high), text, **flags)]

    return make


def _counted(make: Callable[[str, int], Rule]) -> Callable[..., list[Rule]]:
    return lambda name, args, _: [make(name, int(args[0]))]


_INFINITY: Final = 2**63
_WITH_DETAIL: Final[dict[str, Callable[..., Rule]]] = {
    "required": rules.required,
    "forbidden": rules.forbidden,
    "invalid": rules.invalid,
    "error": rules.error,
    "refused": rules.refused,
}
_PLAIN: Final[dict[str, Callable[..., list[Rule]]]] = {
    "any": lambda name, _, __: [Rule(lambda *_: None, name)],
    "enum": lambda name, words, _, **flags: [rules.enum(name, words, **flags)],
    "one-of": _one_of,
    "range": _number(None, None, "must be between {low} and {high}, inclusive"),
    "at-least": _number(None, _INFINITY, "must be greater than or equal to {low}"),
    "at-most": _number(-_INFINITY, None, "must be less than or equal to {high}"),
    "not-negative": _number(0, _INFINITY, values.NOT_NEGATIVE),
    "not-above": lambda name, args, detail: [rules.not_above(name, args[0], detail)],
    "longest": _counted(rules.longest),
    "matches": _matches,
    "most": _counted(rules.most),
    "immutable": lambda name, _, detail, **flags: [
        rules.unchanged(name, detail or values.IMMUTABLE, **flags)
    ],
    "kept": lambda name, _, detail: [rules.kept(name, detail)],
}
