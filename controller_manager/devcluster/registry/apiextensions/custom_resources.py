"""The behaviour of custom resources of one version, and the columns of their tables.

Upstream: pkg/registry/customresource.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import eq, ge, gt, le, lt, ne
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.apiserver import strategy
from controller_manager.devcluster.apiserver.field_set import FieldSet
from controller_manager.devcluster.apiserver.field_type import FieldType
from controller_manager.devcluster.cel.values import is_number
from controller_manager.devcluster.scheme.readers import duplicates, plain
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.storage import Stored

from .schemas import keywords, objects
from .schemas.rules import Rules
from .schemas.validation import validate_value

# JSONPath, as far as columns of definitions need it (client-go/util/jsonpath):
# ``.spec.replicas``, ``.metadata.annotations.a\.b``, ``['a.b']``, ``[0]``, ``[-1]``,
# ``[*]``, ``..name`` and ``[?(@.type=="Ready")]``.

_Step = Callable[[Any], Iterator[Any]]


class PathProblem(ValueError):
    """A text is not a path; the message says where."""


_STEP: Final = re.compile(
    r"""
    (?P<deep>\.\.)(?P<deep_name>[\w-]+)
    | \.(?P<name>(?:[^.\[\]\\\s]|\\.)+)
    | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
    | \[(?P<index>-?\d+)\]
    | \[(?P<slice>-?\d*:-?\d*)\]
    | (?:\[|\.)(?P<every>\*)\]?
    | \[\?\((?P<filter>.+?)\)\]
    """,
    re.VERBOSE,
)
_FILTER: Final = re.compile(
    r"""@(?P<path>[.\[].*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.+))?""",
    re.VERBOSE,
)


class JSONPath:
    """A path, ready to be followed."""

    def __init__(self, text: str) -> None:
        """Take a path, with or without braces around it; raises PathProblem."""
        self._steps = list(_steps(text.strip().removeprefix("{").removesuffix("}")))

    def find(self, value: Any) -> list[Any]:
        """Return all values at the path."""
        found: Iterable[Any] = [value]
        for step in self._steps:
            found = [each for outer in found for each in step(outer)]
        return list(found)


def _steps(text: str) -> Iterator[_Step]:
    position = 1 if text.startswith("$") else 0
    if text in (".", ""):
        return
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            msg = f"no step of a path begins at offset {position} of {text!r}"
            raise PathProblem(msg)
        yield _step(found)
        position = found.end()


def _step(found: re.Match[str]) -> _Step:
    parts = found.groupdict()
    if parts["deep"]:
        return _deep(parts["deep_name"])
    if parts["every"]:
        return _every
    if parts["name"] is not None:
        return _field(re.sub(r"\\(.)", r"\1", parts["name"]))
    if parts["quoted"] is not None:
        return _field(parts["quoted"])
    if parts["index"] is not None:
        index = int(parts["index"])
        return _part(index, index + 1 or None)
    if parts["slice"] is not None:
        first, _, last = parts["slice"].partition(":")
        return _part(int(first) if first else None, int(last) if last else None)
    return _filtered(parts["filter"])


def _field(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _part(first: int | None, last: int | None) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[first:last]

    return step


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _deep(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]
        for each in _every(value):
            yield from step(each)

    return step


def _filtered(text: str) -> _Step:
    found = _FILTER.fullmatch(text.strip())
    if found is None:
        msg = f"the filter {text!r} is not understood"
        raise PathProblem(msg)
    path, operator = JSONPath(found["path"]), found["operator"]
    wanted = _constant(found["value"]) if operator else None

    def fits(value: Any) -> bool:
        values = path.find(value)
        if operator is None:
            return bool(values)
        return any(_compare(each, operator, wanted) for each in values)

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from filter(fits, value)

    return step


def _constant(text: str) -> Any:
    text = text.strip()
    if text[:1] == "'" == text[-1:]:
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        msg = f"the value {text!r} of a filter is not understood"
        raise PathProblem(msg) from None


_OPERATORS: Final = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def _compare(one: Any, operator: str, other: Any) -> bool:
    try:
        return bool(_OPERATORS[operator](one, other))
    except TypeError:
        return False


# The columns that a definition adds to the tables of its objects.

_AGE: Final = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
}
_PATH: Final = "Custom resource definition column (in JSONPath format): "


class _Shown(NamedTuple):
    column: strategy.Column
    path: JSONPath


class PrinterColumns:
    """The name of an object, and the columns of its definition."""

    def __init__(self, declared: Sequence[JSON]) -> None:
        """Take ``additionalPrinterColumns``; the default is the column Age."""
        self._shown = [
            _Shown(_column(each), path)
            for each in declared or [_AGE]
            if (path := _path(each)) is not None
        ]
        self.columns = (strategy.NAME, *(each.column for each in self._shown))

    def cells(self, obj: JSON, now: datetime) -> strategy.Cells:
        """Return an object's row; a field that is absent leaves its cell empty."""
        return [
            obj["metadata"]["name"],
            *(_cell(each, obj, now) for each in self._shown),
        ]


def _column(declared: JSON) -> strategy.Column:
    path = declared.get("jsonPath", "")
    return strategy.Column(
        declared["name"],
        declared["type"],
        declared.get("priority", 0),
        declared.get("format", ""),
        declared.get("description") or f"{_PATH}{path}",
    )


def _path(declared: JSON) -> JSONPath | None:
    """Return the path of a column, or `None`, which omits it, for an invalid path."""
    try:
        return JSONPath(declared.get("jsonPath", ""))
    except PathProblem:
        return None


def _cell(shown: _Shown, obj: JSON, now: datetime) -> Any:
    found = shown.path.find(obj)
    if not found or found[0] is None:
        return None
    value = found[0]
    match shown.column.type:
        case "string":
            return _text(value)
        case "integer" if is_number(value):
            return int(value)
        case "number" if is_number(value):
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return _since(value, now)
    return None


def _text(value: Any) -> str:
    """Return a value as Go's templates print it: only texts are without quotes."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _since(text: str, now: datetime) -> str:
    try:
        then = parse_time(text)
        return strategy.human_duration((now - then).total_seconds())
    except (TypeError, ValueError):
        return "<invalid>"


# The strategy

_MOST_REPLICAS: Final = 2**31 - 1


class Origin(NamedTuple):
    """The parts of a definition that its kinds need."""

    uid: str
    generation: int
    is_going: bool
    accepted: str
    """The accepted names, as JSON."""


class Served(NamedTuple):
    """One version of a definition."""

    origin: Origin
    version: JSON
    api_version: str
    since: int
    """The resource version from which on objects are stored with this schema."""


class CustomResourceStrategy(strategy.Strategy):
    """Prunes objects, fills in defaults, and checks them against their schema."""

    counts_generations: ClassVar = True
    merges_strategically: ClassVar = False
    allows_unconditional_update: ClassVar = False
    not_in_status: ClassVar[FieldSet] = {
        "f:apiVersion": {},
        "f:kind": {},
        "f:metadata": {},
        "f:spec": {},
    }

    def __init__(self, served: Served) -> None:
        version = served.version
        self.origin = served.origin
        self._served = served
        self._schema: JSON = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        self._sets_defaults = objects.has_defaults(self._schema)
        self._rules = Rules(self._schema)
        self._type = keywords.type_of_resource(self._schema)
        subresources = version.get("subresources") or {}
        self._has_status = "status" in subresources
        self._replicas = _names_in(
            (subresources.get("scale") or {}).get("specReplicasPath", "")
        )
        self._printed = PrinterColumns(version.get("additionalPrinterColumns") or ())
        self._selectable = {
            ".".join(steps): steps
            for each in version.get("selectableFields") or ()
            if (steps := _names_in(each["jsonPath"]))
        }

    # Reading what clients send

    def decoded(self, obj: JSON) -> tuple[JSON, list[str]]:
        """Return an object without fields that its schema does not know.

        Upstream decodes the metadata, prunes, and decodes the metadata of embedded
        resources, in this order (customresource_handler.go).
        """
        repeated = duplicates(obj)
        given = obj.get("metadata")
        metadata, unknown = objects.coerced_metadata({} if given is None else given)
        result, dropped = objects.pruned(plain(obj), self._schema, is_resource=True)
        result, embedded = objects.coerced(result, self._schema)
        pruned_fields = [f'unknown field "{path}"' for path in sorted(dropped)]
        result["metadata"] = metadata
        problems = [*repeated, *unknown, *pruned_fields, *embedded]
        return result, list(dict.fromkeys(problems))

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the defaults of the schema, and drop nulls that it forbids."""
        found = self._defaulted(obj)
        obj.clear()
        obj.update(found)

    def field_type(self) -> FieldType:
        """Return how the fields of the schema are merged."""
        return self._type

    def _defaulted(self, obj: JSON) -> JSON:
        """Return an object with the defaults; its metadata has none.

        An object that is pruned between two versions may have lost its metadata.
        """
        found: JSON = objects.defaulted(obj, self._schema)
        kept = {name: obj[name] for name in ("metadata",) if name in obj}
        return {**found, **kept}

    def prepare_for_status_update(self, old: JSON, new: JSON) -> None:
        """Keep the metadata: only the status changes."""
        new["metadata"] = dict(old["metadata"])

    def changes_generation(self, old: JSON, new: JSON) -> bool:
        """Tell whether a field besides metadata and a status subresource changes."""
        aside = {"metadata", "kind", "apiVersion"}
        if self._has_status:
            aside.add("status")
        return any(
            old.get(name) != new.get(name) for name in {*old, *new} if name not in aside
        )

    # Validation

    def validate_new(self, obj: JSON) -> Sequence[Cause]:
        """Check a new object against the schema."""
        causes = validate_value(_without_metadata(obj), self._schema)
        causes += self._validate_rest(obj)
        return [*causes, *self._rules.validate(obj, causes)]

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check the changes of an update."""
        before = _without_metadata(old)
        causes = validate_value(_without_metadata(new), self._schema, old=before)
        causes += self._validate_rest(new)
        return [*causes, *self._rules.validate(new, causes, old)]

    def _validate_rest(self, obj: JSON) -> Sequence[Cause]:
        return [
            *self._validate_replicas(obj),
            *objects.validate_embedded(obj, self._schema),
            *objects.validate_lists(obj, self._schema),
        ]

    def _validate_replicas(self, obj: Any) -> Sequence[Cause]:
        found = obj
        for name in self._replicas:
            found = found.get(name) if isinstance(found, dict) else None
        if type(found) is not int or 0 <= found <= _MOST_REPLICAS:
            return ()
        detail = "should be a non-negative integer"
        if found > 0:
            detail = f"should be less than or equal to {_MOST_REPLICAS}"
        return [invalid("." + ".".join(self._replicas), shown(found), detail)]

    def validate_status_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check a status against the part of the schema that describes it."""
        schema = keywords.properties_of(self._schema).get("status")
        if schema is None or "status" not in new:
            return self._rules.validate(new, [], old)
        before = old.get("status")
        causes = validate_value(new["status"], schema, base="status", old=before)
        causes += objects.validate_lists(new["status"], schema, "status")
        return [*causes, *self._rules.validate(new, causes, old)]

    # Showing

    def without_unknown(self, obj: JSON) -> JSON:
        """Return a converted object without the fields that the schema lacks."""
        result, _ = objects.pruned(obj, self._schema, is_resource=True)
        return dict(result)

    def openapi_schema(self) -> JSON:
        """Return the schema of the version."""
        return self._schema

    def shown(self, stored: Stored) -> JSON:
        """Return an object as this version shows it.

        The server prunes an object that was stored before the definition changed, or in
        another version, and fills in the defaults that it lacks.
        """
        obj = stored.obj
        is_own = obj["apiVersion"] == self._served.api_version
        if is_own and stored.version >= self._served.since:
            return obj
        result, _ = objects.pruned(obj, self._schema, is_resource=True)
        if self._sets_defaults:
            result = self._defaulted(result)
        return obj if result == obj else result

    def fields_to_select(self) -> Mapping[str, tuple[str, ...]]:
        """Return the selectable fields of the version."""
        return self._selectable

    def table_columns(self) -> Sequence[strategy.Column]:
        """Return the name, and the columns of the version."""
        return self._printed.columns

    def cells(self, obj: JSON, now: datetime) -> strategy.Cells:
        """Return the row of the table."""
        return self._printed.cells(obj, now)


def _names_in(path: str) -> tuple[str, ...]:
    """Return the names in a path such as ``.spec.replicas``."""
    return tuple(filter(None, path.split(".")))


def _without_metadata(obj: JSON) -> JSON:
    """Return an object with empty metadata.

    The server checks the metadata; a schema may restrict only the name.
    """
    names = {
        name: obj["metadata"][name]
        for name in ("name", "generateName")
        if name in obj["metadata"]
    }
    return {**obj, "metadata": names}
