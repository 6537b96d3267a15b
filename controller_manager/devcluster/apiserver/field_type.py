"""Types of values for merging, and checks of a configuration against them.

Upstream: structured-merge-diff, and kube-openapi/pkg/schemaconv.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, lru_cache, partial
from typing import Any, Final, Literal, NamedTuple

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.models import Field, Type, built_in

# Types of values for merging: as a whole, field by field, or item by item.

Scalar = Literal["numeric", "string", "boolean", "untyped"]

_KEPT: Final = 4096
"""The size of the cache of steps: items of a kind have few keys."""


class NoKeyError(ValueError):
    """An item lacks the key of its list."""


class ListType:
    """A list: replaced as a whole, a set of scalars, or items with keys.

    A list without `keys` is a set, unless it is atomic.
    """

    __slots__ = ("defaults", "is_atomic", "items", "keys")

    def __init__(
        self,
        items: "FieldType",
        keys: tuple[str, ...] = (),
        defaults: Mapping[str, Any] | None = None,
        *,
        is_atomic: bool = False,
    ) -> None:
        """Take the type of the items, and the key fields.

        `defaults` has the values of those fields that items may lack.
        """
        self.items = items
        self.keys = tuple(sorted(keys))
        self.defaults = defaults or {}
        self.is_atomic = is_atomic

    def step(self, item: Any) -> str:
        """Return the step of an item in a path; raises NoKeyError if it has no key."""
        if not self.keys:
            return _value_step(item)
        if item is None:
            raise NoKeyError("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise NoKeyError("associative list with keys may not have non-map elements")
        keys, defaults = self.keys, self.defaults
        names = [name for name in keys if name in item or name in defaults]
        if not names:
            listed = " ".join(f'"{name}"' for name in keys)
            raise NoKeyError(
                "associative list with keys has an element that omits all key fields "
                f"[{listed}] (and doesn't have default values for any key fields)"
            )
        values = [item[name] if name in item else defaults[name] for name in names]
        if all(each.__class__ is str for each in values):
            return _text_step(*names, *values)
        return f"k:{_compact(dict(zip(names, values, strict=True)))}"


class MapType:
    """A map: replaced as a whole, or merged field by field."""

    def __init__(
        self,
        load: "Callable[[], Mapping[str, FieldType]] | None" = None,
        others: "FieldType | None" = None,
        always: frozenset[str] = frozenset(),
        *,
        is_atomic: bool = False,
    ) -> None:
        """Take a function that returns the declared fields, and the type of all others.

        Without `others`, other fields are forbidden. `always` are the fields that Go
        writes also when they are empty: structs that are no pointers.
        """
        self._load = load
        self.others = others
        self.always = always
        self.is_atomic = is_atomic

    @cached_property
    def fields(self) -> "Mapping[str, FieldType]":
        """The types of the declared fields."""
        return self._load() if self._load else {}

    def of(self, name: str) -> "FieldType":
        """Return the type of a field, that of other fields if it is not declared."""
        return self.fields.get(name) or self.others or DEDUCED


class FieldType:
    """The type of a value, which may be of several forms."""

    __slots__ = ("list", "map", "scalar")

    def __init__(
        self,
        scalar: Scalar | None = None,
        map_: MapType | None = None,
        list_: ListType | None = None,
    ) -> None:
        self.scalar = scalar
        self.map = map_
        self.list = list_

    def map_of(self, value: Any) -> MapType | None:
        """Return the map type of a value that is merged by field, `None` for others."""
        if isinstance(value, dict) and self.map and not self.map.is_atomic:
            return self.map
        return None

    def list_of(self, value: Any) -> ListType | None:
        """Return the list type of a value that is merged by item, `None` for others."""
        if isinstance(value, list) and self.list and not self.list.is_atomic:
            return self.list
        return None


UNTYPED: Final = FieldType("untyped")
DEDUCED: Final = FieldType("untyped")
"""The type of an unknown value: lists are replaced as a whole."""

DEDUCED.map = MapType(others=DEDUCED)
DEDUCED.list = ListType(DEDUCED, is_atomic=True)


def indexed(items: list[Any], type_: ListType) -> dict[str, list[Any]]:
    """Return the items of a list by the steps that name them.

    It skips items without a key, as upstream does in stored objects.
    """
    found: dict[str, list[Any]] = {}
    for item in items:
        try:
            step = type_.step(item)
        except NoKeyError:
            continue
        found.setdefault(step, []).append(item)
    return found


def shown_step(step: str) -> str:
    """Return a step as messages show it: ``.name``, ``[name="c"]``, ``[="a"]``."""
    kind, _, text = step.partition(":")
    match kind:
        case "f":
            return f".{text}"
        case "k":
            pairs = json.loads(text).items()
            listed = ",".join(f"{name}={_compact(value)}" for name, value in pairs)
            return f"[{listed}]"
        case "v":
            return f"[={text}]"
    return f"[{text}]"


@lru_cache(_KEPT)
def _text_step(*names_and_values: str) -> str:
    """Return the step of an item whose keys are texts.

    For texts, msgspec writes what `_compact` does in a twentieth of the time.
    """
    count = len(names_and_values) // 2
    names, values = names_and_values[:count], names_and_values[count:]
    keys = dict(zip(names, values, strict=True))
    return f"k:{msgspec.json.encode(keys).decode()}"


def _value_step(item: Any) -> str:
    if isinstance(item, dict):
        msg = "associative list without keys has an element that's a map type"
        raise NoKeyError(msg)
    if isinstance(item, list):
        raise NoKeyError("not supported: associative list with lists as elements")
    if item is None:
        msg = "associative list without keys has an element that's an explicit null"
        raise NoKeyError(msg)
    return f"v:{_compact(item)}"


_compact: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
"""Encodes a value as JSON without spaces."""


# The types of built-in kinds, from their models (kube-openapi/pkg/schemaconv).

_SCALARS: Final[Mapping[str, FieldType]] = {
    "boolean": FieldType("boolean"),
    "integer": FieldType("numeric"),
    "number": FieldType("numeric"),
    "string": FieldType("string"),
}
_TEXTS: Final = ("", "byte")
"""The formats of texts; a text of another format, such as a time, is not checked."""


@cache
def type_of_model(name: str, *, map_type: str = "") -> FieldType:
    """Return the type of a model; `map_type` is that of a field that refers to it."""
    model = built_in().model(name)
    if model.type not in ("", "object", "array"):
        return _scalar(model.type, model.format)
    if not model.fields:
        return DEDUCED
    is_atomic = (map_type or model.map_type) == "atomic"
    always = frozenset(
        field_name for field_name, field in model.fields.items() if _is_always(field)
    )
    return FieldType(
        map_=MapType(partial(_fields, name), always=always, is_atomic=is_atomic)
    )


def _is_always(field: Field) -> bool:
    """Tell whether Go writes a field also when it is empty: a struct, or a list."""
    if field.pointer or field.omitzero:
        return False
    if field.ref:
        return bool(built_in().model(field.ref).fields)
    return field.items is not None and not field.omitempty


def _fields(name: str) -> Mapping[str, FieldType]:
    fields = built_in().model(name).fields
    return {each: _type_of_field(field) for each, field in fields.items()}


def _type_of_field(field: Field) -> FieldType:
    if field.ref:
        return type_of_model(field.ref, map_type=field.map_type)
    if field.items is not None:
        items, keys = _type_of(field.items), field.list_map_keys
        is_atomic = field.list_type not in ("map", "set")
        defaults = _defaults_of_keys(field.items.ref, keys)
        return FieldType(list_=ListType(items, keys, defaults, is_atomic=is_atomic))
    return _type_of(field, is_atomic=field.map_type == "atomic")


def _defaults_of_keys(items: str, keys: tuple[str, ...]) -> Mapping[str, str]:
    fields = built_in().model(items).fields if items and keys else {}
    return {name: fields[name].default for name in keys if fields[name].default}


def _type_of(type_: Type, *, is_atomic: bool = False) -> FieldType:
    if type_.ref:
        return type_of_model(type_.ref)
    if type_.items is not None:
        return FieldType(list_=ListType(_type_of(type_.items), is_atomic=True))
    if type_.values is not None:
        others = _type_of(type_.values)
        return FieldType(map_=MapType(others=others, is_atomic=is_atomic))
    return _scalar(type_.type, type_.format)


def _scalar(type_: str, format_: str) -> FieldType:
    if type_ == "string" and format_ not in _TEXTS:
        return UNTYPED
    return _SCALARS[type_]


# Checks a configuration against its type before apply.


class _Fault(NamedTuple):
    """An error in a configuration, and its path."""

    path: str
    message: str


def faults_of(config: JSON, type_: FieldType) -> str:
    """Return the error in a configuration as upstream's message, "" if it is valid."""
    faults = [
        f"{path}: {message}" if path else message
        for path, message in _faults(config, type_, "")
    ]
    if len(faults) < 2:
        return "".join(faults)
    return "\n".join(["errors:", *(f"  {each}" for each in faults)])


def _faults(value: Any, type_: FieldType, path: str) -> Iterator[_Fault]:
    if value is None:
        return
    if isinstance(value, dict) and type_.map:
        yield from _faults_of_map(value, type_.map, path)
    elif isinstance(value, list) and type_.list:
        yield from _faults_of_list(value, type_.list, path)
    elif message := _wrong_form(value, type_):
        yield _Fault(path, message)


def _faults_of_map(value: JSON, type_: MapType, path: str) -> Iterator[_Fault]:
    for name, each in value.items():
        where = f"{path}.{name}"
        inner = type_.fields.get(name) or type_.others
        if inner is None:
            yield _Fault(where, "field not declared in schema")
            return
        yield from _faults(each, inner, where)


def _faults_of_list(value: list[Any], type_: ListType, path: str) -> Iterator[_Fault]:
    seen: set[str] = set()
    for number, each in enumerate(value):
        shown = f"[{number}]"
        if not type_.is_atomic:
            try:
                step = type_.step(each)
            except NoKeyError as error:
                yield _Fault(path, f"element {number}: {error}")
                return
            shown = shown_step(step)
            if step in seen:
                yield _Fault(path, f"duplicate entries for key {shown}")
            seen.add(step)
        yield from _faults(each, type_.items, path + shown)


def _wrong_form(value: Any, type_: FieldType) -> str:
    """Return the error in a value that is neither a declared map nor a list."""
    if type_.map and type_.scalar is None:
        return f"expected map, got &{{{_go(value)}}}"
    if type_.list and type_.scalar is None:
        return f"expected list, got &{{{_go(value)}}}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match type_.scalar:
        case "numeric" if not is_number:
            return f"expected numeric (int or float), got {_go_type(value)}"
        case "string" if not isinstance(value, str):
            return (
                f"expected string, got &value.valueUnstructured{{Value:{_go(value)}}}"
            )
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{_go(value)}}}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{_go(value)}}}"
    return ""


def _go(value: Any) -> str:
    """Return a value as Go prints it."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            inner = " ".join(f"{name}:{_go(value[name])}" for name in sorted(value))
            return f"map[{inner}]"
        case list():
            return f"[{' '.join(_go(each) for each in value)}]"
    return "<nil>" if value is None else str(value)


def _go_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case dict():
            return "map[string]interface {}"
    return "[]interface {}"
