"""Random objects of every model, in the form that Go's JSON has."""

import base64
import random
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_micro_time, format_time
from controller_manager.devcluster.scheme.models import Field, Models, Type

_DEPTH: Final = 4
"""The nesting from which on an object gets no more optional parts."""

_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."


_TEXTS: Final = (
    *("", "a", "web-0", "ä€😀", " a ", "\ta", "a\nb\n", "\n", "\u2028\x85\x7f\x00"),
    *("yes", "null", "~", "1e3", "0x1f", "0o17", "1_000", "1:30", ".inf", "2001-01-01"),
    *("- a", "a: b", "a #b", "'", '"', "&a", "*a", "!!int 1", "{", "[", "%", "---"),
)
"""Texts, many of which YAML takes for other values if they are not quoted."""

_QUANTITIES: Final = (
    "0",
    "1",
    "-1",
    "500m",
    "2Gi",
    "1e3",
    "100n",
    "9223372036854775807",
)


class Objects:
    """Makes values of models by random numbers."""

    def __init__(self, models: Models, rng: random.Random) -> None:
        self._models = models
        self._rng = rng

    def of(self, name: str, depth: int = 0) -> Any:
        if special := getattr(self, f"_{name.rpartition('.')[2]}", None):
            return special(depth)
        if name == f"{_SCHEMA}JSONSchemaProps":
            # A schema has schemas in ten fields: with three levels it is large enough.
            depth = max(depth, _DEPTH - 3)
        obj: JSON = {}
        for each, field in self._models.model(name).fields.items():
            is_struct = bool(field.ref) and not field.pointer
            if not field.number or self._is_left_out(field, depth, is_struct=is_struct):
                continue
            value = self._value(field, depth)
            if value is None and field.pointer:
                continue  # null is no value of a pointer
            if value or is_struct or field.pointer or not field.omitempty:
                obj[each] = value
        return obj

    def _is_left_out(self, field: Field, depth: int, *, is_struct: bool) -> bool:
        if is_struct or not field.omitempty:
            return False
        return depth >= _DEPTH or self._rng.random() < 0.4

    def _value(self, of: Type, depth: int) -> Any:
        count = self._rng.randint(1, 2)
        if of.items is not None:
            return [self._value(of.items, depth) for _ in range(count)]
        if of.values is not None:
            return {
                self._text(): self._value(of.values, depth + 1) for _ in range(count)
            }
        if of.ref:
            return self.of(of.ref, depth + 1)
        match of.type:
            case "integer":
                bits = 31 if of.format == "int32" else 63
                least, most = -1 << bits, (1 << bits) - 1
                some = self._rng.randint(least, most)
                return self._rng.choice((0, 1, least, most, some))
            case "boolean":
                return self._rng.random() < 0.5
            case "number":
                return self._rng.choice((0.0, 0.1, -1e300, 3.0))
        if of.format == "byte":
            size = self._rng.randint(0, 3)
            return base64.b64encode(
                bytes(self._rng.choices(range(256), k=size))
            ).decode()
        return self._text()

    def _text(self) -> str:
        return self._rng.choice((*_TEXTS, str(self._rng.random())))

    def _json(self, depth: int) -> Any:
        some: list[Any] = [None, True, "text", 1.5, -3, {"a": []}, [{"b": None}]]
        if depth < _DEPTH:
            some += [[self._json(depth + 1)], {"c": self._json(depth + 1)}]
        return self._rng.choice(some)

    def _moment(self) -> datetime:
        start = datetime(1, 1, 2, tzinfo=UTC)
        return start + timedelta(microseconds=self._rng.randrange(6 * 10**16))

    def _Verbs(self, _: int) -> list[str]:  # noqa: N802 - a model's name, as below
        return [self._text() for _ in range(self._rng.randint(0, 2))]

    def _Time(self, _: int) -> str:  # noqa: N802
        return format_time(self._moment())

    def _MicroTime(self, _: int) -> str:  # noqa: N802
        return format_micro_time(self._moment())

    def _Quantity(self, _: int) -> str:  # noqa: N802
        return self._rng.choice(_QUANTITIES)

    def _IntOrString(self, _: int) -> str | int:  # noqa: N802
        return self._rng.choice(("", "25%", "80", 0, -1, 80, (1 << 31) - 1))

    def _object(self, depth: int) -> JSON:
        return {"f:a": self._json(depth)}

    _FieldsV1 = _RawExtension = _object

    def _JSON(self, depth: int) -> Any:  # noqa: N802
        return self._json(depth)

    def _schema(self, depth: int) -> Any:
        return self.of(f"{_SCHEMA}JSONSchemaProps", max(depth, _DEPTH - 1))

    def _JSONSchemaPropsOrArray(self, depth: int) -> Any:  # noqa: N802
        schemas = [self._schema(depth), self._schema(depth)]
        return self._rng.choice((schemas, schemas[0]))

    def _JSONSchemaPropsOrBool(self, depth: int) -> Any:  # noqa: N802
        return self._rng.choice((True, False, self._schema(depth)))

    def _JSONSchemaPropsOrStringArray(self, depth: int) -> Any:  # noqa: N802
        return self._rng.choice((["a", ""], self._schema(depth)))
