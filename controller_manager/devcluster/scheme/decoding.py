"""Decodes bodies as Go does: YAML, JSON, and objects by the types of their fields."""

import codecs
import json
import operator
import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from random import Random
from typing import Any, Final
from uuid import UUID

import msgspec
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.yaml_files import MALFORMED, check_limits

from .models import Type
from .readers import ABSENT, Read, Repeated, TypeMismatch, go_kind, plans, zero

# The error messages of Go's encoding/json for a body that is not JSON.

_ENDINGS: Final = (
    ("Expecting property name", "looking for beginning of object key string"),
    ("Expecting value", "looking for beginning of value"),
    ("Expecting ':'", "after object key"),
    ("Expecting ','", "after object key:value pair"),
    ("Extra data", "after top-level value"),
    ("Invalid control character", "in string literal"),
    ("Illegal trailing comma", "looking for beginning of value"),
)


def go_json_error(body: bytes) -> str:
    """Return encoding/json's message for a body that is not JSON."""
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc):
            return "unexpected end of JSON input"
        character = error.doc[error.pos]
        ending = next(
            (text for start, text in _ENDINGS if error.msg.startswith(start)),
            "looking for beginning of value",
        )
        return f"invalid character '{character}' {ending}"
    except UnicodeDecodeError as error:
        return f"invalid character '\\x{body[error.start]:02x}' in string literal"
    except RecursionError:
        return "exceeded max depth"
    return "invalid JSON"


# Random uids.


def random_uid(rng: Random) -> str:
    """Return a random uid (version 4)."""
    return str(UUID(int=rng.getrandbits(128), version=4))


# YAML in the bodies of requests and answers, as Go reads and writes it.

LARGE: Final = 64 * 1024
"""The bytes from which on a document is read or written in a thread.

A megabyte takes a second, and more if other threads compute meanwhile.
"""

YAML_ERRORS: Final = "yaml: unmarshal errors:"
"""The first line of errors that each have a line."""

_TOO_DEEP: Final = "exceeded max depth"
_KEY: Final = operator.itemgetter(0)
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class YAMLBodyError(ValueError):
    """A body is not valid YAML; the message names the error."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads the types of JSON: dates are texts, and so is ``22:22``."""

    yaml_implicit_resolvers: Final = {
        letter: [
            (tag, re.compile(f"(?!.*:)(?:{pattern.pattern})", re.VERBOSE))
            for tag, pattern in resolvers
            if tag != _TIMESTAMP
        ]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class ReadBody(bytes):
    """A document that was read when this was made, to be decoded at once later."""

    def __init__(self, document: bytes) -> None:
        super().__init__()
        self._found: tuple[Any, list[str]] | YAMLBodyError
        try:
            self._found = decode_yaml(document), repeated_keys(document)
        except YAMLBodyError as error:
            self._found = error

    def found(self) -> tuple[Any, list[str]]:
        """Return a new value and the errors of keys; raises YAMLBodyError."""
        if isinstance(self._found, YAMLBodyError):
            raise YAMLBodyError(*self._found.args)
        return deepcopy(self._found)


def encode_yaml(json: bytes) -> bytes:
    """Return JSON as YAML."""
    text: str = yaml.dump(
        msgspec.json.decode(json),
        Dumper=_DUMPER,
        default_flow_style=False,
        allow_unicode=True,
        width=10**6,
    )
    return text.encode()


def decode_yaml(body: bytes) -> Any:
    """Return the value of a document; raises YAMLBodyError."""
    if isinstance(body, ReadBody):
        return body.found()[0]
    try:
        text = _text_of(body)
        check_limits(text)
        return _with_text_keys(yaml.load(text, _Loader))  # noqa: S506 - it is safe
    except MALFORMED as error:
        raise YAMLBodyError(_problem(error)) from None


def _text_of(body: bytes) -> str:
    """Return a body as text, which is in UTF-16 if it says so."""
    is_utf_16 = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return body.decode("utf-16" if is_utf_16 else "utf-8")


def _problem(error: Exception) -> str:
    """Return the problem with a document, as upstream words its limit of levels.

    PyYAML has a limit of its own for lists and maps in brackets since 6.0.4.
    """
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    if isinstance(error, UnicodeDecodeError):
        return "invalid leading UTF-8 octet"
    problem: str | None = getattr(error, "problem", None)
    if problem is None:
        problem = "not valid YAML" if isinstance(error, yaml.YAMLError) else str(error)
    return _TOO_DEEP if problem.startswith("exceeded maximum nesting") else problem


def repeated_keys(body: bytes) -> list[str]:
    """Return the errors of keys that a document has twice in one map.

    Go names the line of the second value, and the errors in that value first. Raises
    YAMLBodyError.
    """
    if isinstance(body, ReadBody):
        return body.found()[1]
    try:
        return list(_Keys().errors_of(yaml.parse(body, _Loader)))
    except yaml.YAMLError as error:
        raise YAMLBodyError(str(error)) from None


class _Keys:
    def __init__(self) -> None:
        self._maps: list[set[str] | None] = []  # None: a list
        self._values: list[str] = []  # the error of each value that is open
        self._key: str | None = None

    def errors_of(self, events: Iterable[Any]) -> Iterator[str]:
        for event in events:
            if isinstance(event, yaml.CollectionEndEvent):
                self._maps.pop()
                error = self._values.pop()
            elif isinstance(event, yaml.CollectionStartEvent):
                self._values.append(self._error(event))
                is_map = isinstance(event, yaml.MappingStartEvent)
                self._maps.append(set() if is_map else None)
                continue
            elif isinstance(event, yaml.NodeEvent) and not self._is_key(event):
                error = self._error(event)
            else:
                continue
            if error:
                yield error

    def _is_key(self, event: Any) -> bool:
        """Take a key of a map; tell whether the event is one."""
        if self._key is not None or not self._maps or self._maps[-1] is None:
            return False
        self._key = getattr(event, "value", event.anchor)
        return True

    def _error(self, event: Any) -> str:
        """Return the error of a value whose key the map has already, or ""."""
        key, self._key = self._key, None
        keys = self._maps[-1] if self._maps else None
        if key is None or keys is None:
            return ""
        is_repeated = key in keys
        keys.add(key)
        line = event.start_mark.line + 1
        return f"line {line}: key {json.dumps(key)} already set in map" * is_repeated


def _with_text_keys(value: Any) -> Any:
    """Return a value of JSON: keys are sorted texts, and values are not shared."""
    if isinstance(value, dict):
        texts = sorted(((_text(key), each) for key, each in value.items()), key=_KEY)
        return {key: _with_text_keys(each) for key, each in texts}
    if isinstance(value, list):
        return [_with_text_keys(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)  # Go writes 1.0 as 1
    return value


def _text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


# Decodes objects as Go does, by the types of their fields.

MOST_PROBLEMS: Final = 100
"""The most unknown and duplicate fields of an object that are reported."""


class Decoder:
    """Decodes one object.

    The first value of a wrong type raises TypeMismatch in the end. A text that is no
    quantity, time or base64 raises it at once.
    """

    def __init__(self) -> None:
        self._problems: dict[str, None] = {}
        self._path: list[str | int | tuple[str]] = []
        self._model = ""
        self._first: TypeMismatch | None = None
        self._is_silent = False

    @property
    def problems(self) -> list[str]:
        """The unknown and duplicate fields, in the order of the body."""
        return list(self._problems)[:MOST_PROBLEMS]

    def decode(self, obj: JSON, model: str, path: Iterable[str | int] = ()) -> JSON:
        """Return an object of a model; `path` are the fields around it.

        Raises TypeMismatch.
        """
        self._path = list(path)
        found = self.struct(obj, model)
        if self._first is not None:
            raise self._first
        return found

    def struct(self, obj: JSON, model: str) -> JSON:
        """Read the fields of a struct."""
        known = plans(model)
        around, self._model = self._model, model
        path = self._path
        result: JSON = {}
        pairs = obj.items() if type(obj) is dict else self._pairs(obj, known)
        for name, value in pairs:
            plan = known.get(name)
            if plan is None:
                self._report("unknown", name)
            elif type(value) is plan.exact:
                if value or plan.keeps:
                    result[name] = value
            elif value is not None:
                path.append(name)
                found = plan.read(self, value)
                path.pop()
                if found or (plan.keeps and found is not ABSENT):
                    result[name] = found
        self._model = around
        return result

    def items(self, values: list[Any], item: Type, read: Read) -> list[Any]:
        """Read the items of a list."""
        result = []
        path = self._path
        path.append(0)
        for number, value in enumerate(values):
            path[-1] = number
            found = zero(item) if value is None else read(self, value)
            if found is not ABSENT:
                result.append(found)
        path.pop()
        return result

    def entries(self, values: JSON, item: Type, read: Read) -> JSON:
        """Read the values of a map."""
        result: JSON = {}
        path = self._path
        pairs = values.items() if type(values) is dict else self._pairs(values, None)
        for name, value in pairs:
            path.append((name,))
            found = zero(item) if value is None else read(self, value)
            path.pop()
            if found is not ABSENT:
                result[name] = found
        return result

    def _pairs(
        self, obj: JSON, known: Iterable[str] | None
    ) -> Iterator[tuple[str, Any]]:
        """Yield the fields of an object that may have names twice, and report these.

        Go reports a repeated field of a struct only if the struct has the field.
        """
        seen: set[str] = set()
        for name, value in obj.pairs if isinstance(obj, Repeated) else obj.items():
            if name in seen and (known is None or name in known):
                self._report("duplicate", name)
            seen.add(name)
            yield name, value

    def silently(self, value: JSON, model: str) -> JSON:
        """Read a struct that Go reads without regard to unknown fields."""
        silent, self._is_silent = self._is_silent, True
        found = self.struct(value, model)
        self._is_silent = silent
        return found

    def _report(self, problem: str, name: str) -> None:
        if not self._is_silent:
            where = _shown([*self._path, name])
            self._problems[f'{problem} field "{where}"'] = None

    def mismatch(self, value: Any, wanted: str) -> Any:
        """Note a value of another type than is `wanted`, and return ABSENT."""
        if self._first is None:
            self._first = self.wrong_text(value, wanted)
        return ABSENT

    def wrong_text(self, value: Any, wanted: str) -> TypeMismatch:
        """Return the error of a value of another type than is `wanted`."""
        fields = ".".join(each for each in self._path if isinstance(each, str))
        struct = self._model.rpartition(".")[2]
        return TypeMismatch(
            f"json: cannot unmarshal {go_kind(value, wanted)} into Go struct field "
            f"{struct}.{fields} of type {wanted}"
        )


def _shown(path: Iterable[str | int | tuple[str]]) -> str:
    shown = ""
    for each in path:
        if isinstance(each, int):
            shown += f"[{each}]"
            continue
        name = each if isinstance(each, str) else each[0]
        shown += f".{name}" if shown else name
    return shown
