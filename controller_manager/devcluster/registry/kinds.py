"""Kinds as their modules declare them: names, rules, columns, defaults.

The columns of a kind are a text, with one column in a line, or before a ``;``::

    Name
    Replicas integer: .spec.replicas
    Zone: .spec.timeZone or <none>
    Claim: {.spec.claim.namespace}/{.spec.claim.name} or <unset>
    Images wide: join .spec.containers[].image
    Condition: condition
    Age

A title may be followed by the type ``integer`` or ``boolean``, and by ``wide``. Then
comes the cell: a path, a text with paths in braces, or a word and a path. `WORDS` has
the words. In place of a path, a function of the module that declares the kind gets the
object, and returns the value.
``until`` is followed by the path of the time at which ``since`` ends, if there is one.
``or`` is followed by the text or number for an absent value; without it that is 0,
false or empty.
Upstream: pkg/printers, and additionalPrinterColumns.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property, lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Final, TypedDict, Unpack

import msgspec
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.api.selectors import LabelSelector, format_selector
from controller_manager.devcluster.apiserver import strategy
from controller_manager.devcluster.apiserver.kind import Conversion, Kind, Subresource
from controller_manager.devcluster.scheme.models import Resource, built_in_resources
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.storage import Storage, Stored
from controller_manager.devcluster.validation.rules import Rule
from controller_manager.devcluster.validation.text import calling_module, named, table
from controller_manager.options.gates import Gate

Replace = Callable[[JSON, JSON], JSON]
Validate = Callable[[JSON, JSON], Sequence[Cause]]

_GENERIC: Final = strategy.Strategy()


class Facts(TypedDict, total=False):
    """What a kind may declare without a class: variables and methods of `Strategy`.

    Rules are a table or its text, columns are a text. Selectable fields are paths with
    spaces between them; ``name=path`` is a field that has another name than its path.
    """

    absent_fields: Mapping[str, str]
    allows_unconditional_update: bool
    apply_defaults: Callable[[JSON], None]
    assign: Callable[[JSON, JSON, Storage], None]
    check_name: Callable[[str, str], Iterable[Cause]]
    counted_metadata: str
    counts_generations: bool
    defaults: strategy.Defaults
    dropped: tuple[str, ...]
    empty: Mapping[str, Any]
    fallback_fields: Mapping[str, tuple[str, ...]]
    in_table_order: Callable[[Iterable[Stored]], Iterable[Stored]]
    kept: tuple[str, ...]
    kept_by_status: tuple[str, ...]
    label_selector: Callable[[JSON], JSON | None]
    new_rules: Rule | str
    orphans_dependents: bool
    prepare_for_create: Callable[[JSON, Storage], None]
    prepare_for_status_update: Callable[[JSON, JSON], None]
    prepare_for_update: Callable[[JSON, JSON], None]
    printer: str
    returns_deleted: bool
    rules: Rule | str
    selectable_fields: str
    stamp: Callable[[JSON, JSON, datetime], None]
    status_rules: Rule | str
    status_update_rules: Rule | str
    update_rules: Rule | str


def kind_of(  # noqa: PLR0913 - the facts of a resource, given by name
    path: str,
    like: strategy.Strategy = _GENERIC,
    *,
    replace: Mapping[str, Replace] | None = None,
    validate: Mapping[str, Validate] | None = None,
    refusals: Mapping[str, str] = MappingProxyType({}),
    conversion: Conversion | None = None,
    other_versions: tuple[str, ...] = (),
    deprecation: str = "",
    gated: Mapping[Gate, Facts] = MappingProxyType({}),
    **facts: Unpack[Facts],
) -> Kind:
    """Return the kind of a resource of Kubernetes, such as ``apps/v1/deployments``.

    Its strategy is that of `like` with other facts, and with those of `gated` while a
    gate is on. `replace` and `validate` have the functions of subresources, by their
    names, and `refusals` the messages of those that are not served. The texts name
    functions and tables of the calling module. Raises KeyError for a resource that
    Kubernetes 1.36 does not have.
    """
    names = calling_module()
    group_version, _, plural = path.rpartition("/")
    group, _, version = group_version.rpartition("/")
    resources = built_in_resources()[group_version]
    found = resources[plural]
    below = (each for name, each in resources.items() if name.startswith(f"{plural}/"))
    own = _with_facts(like, facts, names)
    return Kind(
        group,
        version,
        found.kind,
        plural,
        namespaced=found.namespaced,
        short_names=found.short_names,
        categories=found.categories,
        subresources=tuple(
            _subresource(each, replace or {}, validate or {}, refusals)
            for each in below
        ),
        verbs=found.verbs,
        strategy=own,
        singular_name=found.singular_name,
        conversion=conversion,
        other_versions=other_versions,
        deprecation=deprecation,
        gated=tuple(
            (gate, _with_facts(own, others, names)) for gate, others in gated.items()
        ),
        storage_version_hash=found.storage_version_hash,
    )


def _with_facts(
    like: strategy.Strategy, facts: Facts, names: Mapping[str, Any]
) -> strategy.Strategy:
    found: dict[str, Any] = {**facts}
    for name, text in found.items():
        if isinstance(text, str) and name.endswith("rules"):
            found[name] = table(text, names)
        elif name == "printer":
            found[name] = TextColumns(text, names)
        elif name == "selectable_fields":
            pairs = (each.partition("=") for each in text.split())
            found[name] = {
                called: tuple((path or called).split(".")) for called, _, path in pairs
            }
    return like.with_facts(found) if found else like


def _subresource(
    found: Resource,
    replace: Mapping[str, Replace],
    validate: Mapping[str, Validate],
    refusals: Mapping[str, str],
) -> Subresource:
    name = found.name.partition("/")[2]
    return Subresource(
        name,
        found.kind,
        found.verbs,
        found.group,
        found.version,
        replace=replace.get(name),
        validate=validate.get(name),
        takes_path=name == "proxy",
        refusal=refusals.get(name, ""),
    )


# Columns as text

_Cell = Callable[[JSON, datetime], Any]
_PATH: Final = re.compile(r"\{([^}]*)\}")
_SHOWN: Final = 3
_ABSENT: Final = {"integer": 0, "boolean": False, "string": ""}


def _few(texts: list[str], _: datetime) -> str | None:
    """Return the first texts, and the number of the others."""
    listed, more = ",".join(texts[:_SHOWN]), len(texts) - _SHOWN
    return f"{listed} + {more} more..." if more > 0 else listed or None


def _since(value: Any, now: datetime) -> str:
    return strategy.human_duration((now - parse_time(value)).total_seconds())


WORDS: Final[dict[str, Callable[[Any, datetime], Any]]] = {
    "count": lambda value, _: len(value),
    "duration": lambda value, _: strategy.human_duration(value),
    "few": _few,
    "filled": lambda value, _: value or None,
    "first": lambda value, _: next(iter(value), None),
    "join": lambda value, _: ",".join(each or "" for each in value),
    "labels": lambda value, _: selector_text({"matchLabels": value} if value else {}),
    "selector": lambda value, _: selector_text(value),
    "since": _since,
    "sum": lambda value, _: sum(filter(None, value)),
    "text": lambda value, _: str(value),
}
"""What a cell shows of a value: the items of a list, a time in seconds, and so on."""

_KNOWN: Final[dict[str, tuple[strategy.Column, _Cell]]] = {
    "Name": (strategy.NAME, lambda obj, _: name_of(obj)),
    "Age": (strategy.AGE, strategy.age),
    "Created At": (
        strategy.CREATED_AT,
        lambda obj, _: obj["metadata"].get("creationTimestamp", ""),
    ),
}
"""The columns whose title says all."""


class TextColumns:
    """The columns and the cells of a text, which is compiled when it is used first.

    A function that the text names gets the object, and returns a cell.
    """

    def __init__(self, text: str, names: Mapping[str, Any]) -> None:
        self._text, self._names = text, names

    @cached_property
    def columns(self) -> tuple[strategy.Column, ...]:
        """The columns; raises ValueError for a wrong text."""
        return tuple(column for column, _ in self._compiled)

    def cells(self, obj: JSON, now: datetime) -> strategy.Cells:
        """Return an object's row of the table."""
        return [cell(obj, now) for _, cell in self._compiled]

    @cached_property
    def _compiled(self) -> list[tuple[strategy.Column, _Cell]]:
        lines = re.split("[;\n]", self._text)
        return [self._column(line.strip()) for line in lines if line.strip()]

    def _column(self, line: str) -> tuple[strategy.Column, _Cell]:
        if line in _KNOWN:
            return _KNOWN[line]
        head, _, text = line.partition(":")
        words = head.split()
        flags = [each for each in words if each in (*_ABSENT, "wide")]
        type_ = next((each for each in flags if each in _ABSENT), "string")
        column = strategy.Column(
            " ".join(words[: len(words) - len(flags)]), type_, int("wide" in flags)
        )
        shown, _, absent = text.strip().partition(" or ")
        usual = int(absent) if absent.isdecimal() else absent or _ABSENT[type_]
        try:
            return column, self._cell(shown, usual)
        except LookupError:
            msg = f"the column {line!r} is no path, no word and no function"
            raise ValueError(msg) from None

    def _cell(self, text: str, absent: Any) -> _Cell:
        if "{" in text:
            return _templated(text, absent)
        text, _, end = text.partition(" until ")
        word, _, path = text.rpartition(" ")
        read, show = self._reader(path), WORDS[word] if word else None
        end_steps = end[1:].split(".") if end else ()

        def cell(obj: JSON, now: datetime) -> Any:
            value = read(obj)
            if end_steps and (ended := _find(obj, end_steps)):
                now = parse_time(ended)
            if value is not None and show:
                value = show(value, now)
            return absent if value is None else value

        return cell

    def _reader(self, path: str) -> Callable[[JSON], Any]:
        """Return a function that returns the value at a path, or calls the function."""
        if not path.startswith("."):
            function: Callable[[JSON], Any] = named(self._names, path)
            return function
        steps = path[1:].split(".")
        return lambda obj: _find(obj, steps)


def _templated(text: str, absent: Any) -> _Cell:
    """Return the cell of a text with paths; without one of the values it is absent."""
    paths = [each[1:].split(".") for each in _PATH.findall(text)]
    template = _PATH.sub("{}", text)

    def cell(obj: JSON, _: datetime) -> Any:
        values = [_find(obj, each) for each in paths]
        return absent if None in values else template.format(*values)

    return cell


def _find(value: Any, steps: Sequence[str]) -> Any:
    """Return the value at a path, `None` if it is absent; ``a[]`` is a list's items."""
    for place, step in enumerate(steps):
        if not value:
            return None
        value = value.get(step.removesuffix("[]"))
        if step.endswith("[]"):
            return [_find(each, steps[place + 1 :]) for each in value or ()]
    return value


def name_of(obj: JSON) -> str:
    """Return an object's name."""
    return str(obj["metadata"]["name"])


def true_conditions(obj: JSON) -> frozenset[str]:
    """Return the types of the conditions in an object's status that are true."""
    conditions = obj.get("status", {}).get("conditions") or ()
    return frozenset(
        each.get("type", "") for each in conditions if each.get("status") == "True"
    )


def selector_text(selector: JSON | None) -> str:
    """Return a label selector as kubectl shows it."""
    if not selector:
        return strategy.NONE
    return format_selector(msgspec.convert(selector, LabelSelector)) or strategy.NONE


# Objects that the API server creates itself

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def bootstrap_manifest(name: str) -> tuple[JSON, ...]:
    """Return the objects in a file of this package; callers do not change them."""
    text = (resources.files(__package__) / name).read_text(encoding="utf-8")
    return tuple(yaml.load_all(text, _LOADER))


@lru_cache(maxsize=1024)
def fixed_uid(seed: str) -> str:
    """Return a uid that follows from `seed`.

    It is not random, so the random sequence of a cluster begins with the objects of
    users.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, seed))
