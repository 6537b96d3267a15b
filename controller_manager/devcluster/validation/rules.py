"""Rules that check objects: closures, to which `text` compiles the tables of the kinds.

A rule gets the object, its path, the list to which it adds the causes, and the outer
object. The path is empty or ends with a dot: the path of a field is the path and the
name. The outer object has the field or the list in which the object is. In a table
about updates it is the old version of the object instead. The causes come in the
order of the rules, and have the words of field.ErrorList.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown

Errors = list[Cause]
Run = Callable[[JSON, str, Errors, JSON], None]

Condition = Callable[[JSON, JSON], bool]
"""It gets the object and the outer object."""

Check = Callable[[Any, str], Iterable[Cause | str]]
"""It gets a value and the path of the value; a text is why the value is invalid."""

Hook = Callable[[JSON, str, JSON], Iterable[Cause]]
"""It gets the object, its path with a dot at the end, and the outer object."""

SELF: Final = ""
"""The name of the object itself, in place of one of its fields."""

OPTIONAL: Final = object()
_NOTHING: Final[JSON] = {}


class Rule:
    """A rule, or a table of rules.

    A test compares the `fields` that it names with the schema, and so the rules
    `below`, for the objects in these fields, and `beside`, for the same object.
    `start` returns a new `run` for each list, in a rule that compares items of a list.
    """

    __slots__ = ("below", "beside", "fields", "run", "start")

    def __init__(
        self,
        run: Run,
        *fields: str,
        below: "Sequence[Rule]" = (),
        beside: "Sequence[Rule]" = (),
        start: Callable[[], Run] | None = None,
    ) -> None:
        self.run = run
        self.fields = tuple(each for each in fields if each)
        self.below = below
        self.beside = beside
        self.start = start

    def errors(self, obj: JSON, outer: JSON = _NOTHING, path: str = "") -> Errors:
        """Return the causes in an object; `outer` is the old object of an update."""
        found: Errors = []
        self.run(obj, path, found, outer)
        return found

    def parts(self) -> "Iterator[Rule]":
        """Yield the rules of a table, and otherwise the rule."""
        yield self


class Table(Rule):
    """Several rules for one object, in their order."""

    __slots__ = ()

    def __init__(self, rules: Sequence[Rule]) -> None:
        super().__init__(joined(rules), beside=rules)

    def parts(self) -> Iterator[Rule]:
        """Yield the rules, also those of the tables in the table."""
        for rule in self.beside:
            yield from rule.parts()


def joined(rules: Iterable[Rule]) -> Run:
    """Return one function for rules about the same object."""
    runs = tuple(part.run for rule in rules for part in rule.parts())
    if len(runs) == 1:
        return runs[0]

    def run(obj: JSON, path: str, errors: Errors, outer: JSON) -> None:
        for each in runs:
            each(obj, path, errors, outer)

    return run


def _at(path: str, name: str) -> str:
    return f"{path}{name}" if name else path[:-1]


def _apply(check: Check, value: Any, where: str, errors: Errors) -> None:
    for each in check(value, where):
        if isinstance(each, str):
            errors.append(statuses.invalid(where, shown(value), each))
        else:
            errors.append(each)


def when(condition: Condition, rules: Sequence[Rule], others: Sequence[Rule]) -> Rule:
    """Apply rules under a condition, and the other rules without it."""
    then, otherwise = joined(rules), joined(others) if others else None

    def run(obj: JSON, path: str, errors: Errors, outer: JSON) -> None:
        if condition(obj, outer):
            then(obj, path, errors, outer)
        elif otherwise is not None:
            otherwise(obj, path, errors, outer)

    return Rule(run, beside=(*rules, *others))


def hook(function: Hook) -> Rule:
    """Call a function for a rule that no other word says."""

    def run(obj: JSON, path: str, errors: Errors, outer: JSON) -> None:
        errors.extend(function(obj, path, outer))

    return Rule(run)


# Fields


def required(name: str, detail: str, at: str, *, pointer: bool = False) -> Rule:
    """Check that a field is there; the cause is about the field `at`.

    A field with an empty value is absent, but not with `pointer`.
    """

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        value = obj.get(name)
        if value is None or (not value and not pointer):
            errors.append(statuses.required(_at(path, at), detail))

    return Rule(run, name)


def forbidden(name: str, detail: str, at: str, *, filled: bool = False) -> Rule:
    """Check that a field is absent; with `filled` it may have an empty value."""

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        value = obj.get(name) if name else True
        if value or (value is not None and not filled):
            errors.append(statuses.forbidden_field(_at(path, at), detail))

    return Rule(run, name)


def refused(name: str, detail: str, at: str) -> Rule:
    """Check that a field is absent, with a cause that shows the value."""

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        value = obj.get(name)
        if value is not None:
            errors.append(statuses.invalid(_at(path, at), shown(value), detail))

    return Rule(run, name)


def invalid(name: str, detail: str, at: str, *, default: Any = None) -> Rule:
    """Refuse the value of a field, which is `default` if the field is missing."""

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        value = obj.get(name, default) if name else obj
        errors.append(statuses.invalid(_at(path, at), shown(value), detail))

    return Rule(run, name)


def error(name: str, detail: str, at: str) -> Rule:
    """Refuse the value of a field, with a cause that does not show it."""

    def run(_: JSON, path: str, errors: Errors, __: JSON) -> None:
        errors.append(statuses.invalid_field(_at(path, at), detail))

    return Rule(run, name)


def member(values: Sequence[str]) -> Callable[[str, str], Errors]:
    """Return a check that a value is one of `values`."""

    def check(value: str, field: str) -> Errors:
        if value in values:
            return []
        return [statuses.not_supported(field, shown(value), values)]

    return check


def enum(
    name: str,
    values: Sequence[str],
    *,
    filled: bool = False,
    default: Any = OPTIONAL,
) -> Rule:
    """Check that the value of a field is one of `values`.

    A missing field has the value `default`; without it, the field is optional. With
    `filled` it may be empty.
    """
    known = frozenset((*values, "") if filled else values)

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        value = obj.get(name, default)
        if value not in known and value is not OPTIONAL:
            where = f"{path}{name}"
            errors.append(statuses.not_supported(where, shown(value), values))

    return Rule(run, name)


def number(
    name: str, bounds: tuple[float, float], detail: str, default: float | None = None
) -> Rule:
    """Check the bounds of a number; a missing one is `default`, or optional."""
    low, high = bounds

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        value = obj.get(name, default)
        if value is not None and not low <= value <= high:
            errors.append(statuses.invalid(f"{path}{name}", shown(value), detail))

    return Rule(run, name)


def longest(name: str, most: int) -> Rule:
    """Check that a text has at most so many bytes."""

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        if len(obj.get(name) or "") > most:
            errors.append(statuses.too_long(f"{path}{name}", most))

    return Rule(run, name)


def most(name: str, count: int) -> Rule:
    """Check that a list or a map has at most so many items."""

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        if (found := len(obj.get(name) or ())) > count:
            errors.append(statuses.too_many(f"{path}{name}", found, count))

    return Rule(run, name)


def field(
    name: str, check: Check, *, pointer: bool = False, default: Any = None, at: str = ""
) -> Rule:
    """Apply a check to a value that is not empty, or with `pointer` to any value.

    A missing field has the value `default`, which is checked even if it is empty. The
    causes are about the field `at`, by default the same.
    """
    empty_too, shown_name = pointer or default is not None, at or name

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        value = obj.get(name, default)
        if value or (empty_too and value is not None):
            _apply(check, value, f"{path}{shown_name}", errors)

    return Rule(run, name)


def items(name: str, check: Check, *, unique: bool = False) -> Rule:
    """Apply a check to each item of a list of values; `unique` refuses duplicates."""

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        values = obj.get(name) or ()
        for place, value in enumerate(values):
            where = f"{path}{name}[{place}]"
            _apply(check, value, where, errors)
            if unique and value in values[:place]:
                errors.append(statuses.duplicate(where, shown(value)))

    return Rule(run, name)


def entries(name: str, check: Check, *, keys: bool) -> Rule:
    """Apply a check to each value of a map, or to each of its keys."""

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        for key, value in (obj.get(name) or _NOTHING).items():
            _apply(check, key if keys else value, f"{path}{name}[{key}]", errors)

    return Rule(run, name)


def not_above(name: str, other: str, detail: str) -> Rule:
    """Check that a number is not greater than that of another field."""

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        if (value := obj.get(name, 0)) > obj.get(other, 0):
            errors.append(statuses.invalid(f"{path}{name}", shown(value), detail))

    return Rule(run, name, other)


# Objects in fields


def nested(
    name: str, rules: Sequence[Rule], *, always: bool = False, outer: bool = False
) -> Rule:
    """Apply rules to the object in a field.

    With `always`, an empty object stands for a missing one. With `outer`, the rules
    get the outer object of this one, for rules further down that need it.
    """
    inner, keeps = joined(rules), outer
    default = _NOTHING if always else None

    def run(obj: JSON, path: str, errors: Errors, outer: JSON) -> None:
        value = obj.get(name, default)
        if value is not None:
            inner(value, f"{path}{name}.", errors, outer if keeps else obj)

    return Rule(run, name, below=rules)


def each(name: str, rules: Sequence[Rule], *, outer: bool = False) -> Rule:
    """Apply rules to each object of a list; `outer` as in `nested`."""
    table = tuple(part for rule in rules for part in rule.parts())
    fixed, keeps = tuple(rule.run for rule in table), outer
    compares = any(rule.start for rule in table)

    def run(obj: JSON, path: str, errors: Errors, outer: JSON) -> None:
        if not (found := obj.get(name)):
            return
        runs = fixed
        if compares:
            runs = tuple(rule.start() if rule.start else rule.run for rule in table)
        around = outer if keeps else obj
        for place, item in enumerate(found):
            where = f"{path}{name}[{place}]."
            for rule in runs:
                rule(item, where, errors, around)

    return Rule(run, name, below=rules)


def changed(name: str, rules: Sequence[Rule]) -> Rule:
    """Apply rules about updates to the new and the old object in a field."""
    inner = joined(rules)

    def run(obj: JSON, path: str, errors: Errors, old: JSON) -> None:
        after, before = obj.get(name) or _NOTHING, old.get(name) or _NOTHING
        inner(after, f"{path}{name}.", errors, before)

    return Rule(run, name, below=rules)


def unchanged(name: str, detail: str, default: Any = None) -> Rule:
    """Check that an update does not change a field; a missing one is `default`."""

    def run(obj: JSON, path: str, errors: Errors, old: JSON) -> None:
        value = obj.get(name, default)
        if value != old.get(name, default):
            errors.append(statuses.invalid(f"{path}{name}", shown(value), detail))

    return Rule(run, name)


def kept(name: str, detail: str) -> Rule:
    """Check that an update does not change a field, with a cause that forbids it."""

    def run(obj: JSON, path: str, errors: Errors, old: JSON) -> None:
        if obj.get(name) != old.get(name):
            errors.append(statuses.forbidden_field(f"{path}{name}", detail))

    return Rule(run, name)


def union(
    members: Mapping[str, Sequence[Rule]],
    besides: Sequence[str],
    missing: str,
    many: str,
) -> Rule:
    """Check that the object has one of the members, and apply the rules of that one.

    With `besides`, each other field than these is a member, in the object's order.
    """
    inner = {name: joined(rules) for name, rules in members.items()}

    def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
        given = [name for name in inner if name in obj]
        if besides:
            given = [name for name in obj if name not in besides]
        for name in given[1:]:
            errors.append(statuses.forbidden_field(f"{path}{name}", many))
        if not given:
            errors.append(statuses.required(path[:-1], missing))
        elif check := inner.get(given[0]):
            check(obj[given[0]], f"{path}{given[0]}.", errors, obj)

    return Rule(run, beside=[nested(name, rules) for name, rules in members.items()])


def unique(
    names: Sequence[str],
    at: str,
    key: Callable[[JSON], Hashable],
    show: Callable[[JSON], Any] | None,
    detail: str,
) -> Rule:
    """Check that no two objects of a list have the same values of these fields.

    The cause is about the field `at`. `key` returns the values to compare, `None` for
    an object that is not compared; `show` returns the value to show, by default the
    values that were compared.
    """

    def start() -> Run:
        seen: set[Hashable] = set()

        def run(obj: JSON, path: str, errors: Errors, _: JSON) -> None:
            found = key(obj)
            if found in seen:
                value = shown(show(obj) if show else found)
                cause = statuses.duplicate(_at(path, at), value)
                if detail:
                    cause.detail += f": {detail}"
                errors.append(cause)
            elif found is not None:
                seen.add(found)

        return run

    return Rule(start(), *names, start=start)
