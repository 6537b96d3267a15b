"""Bytes that are kept as they came, and null in unusual places."""

import importlib
import pkgutil
import sys
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest
from msgspec import Raw, Struct
from msgspec.structs import fields

from controller_manager import api
from controller_manager.api.custom_metrics.v1beta2 import MetricValueList
from controller_manager.api.json_objects import Decoder
from controller_manager.api.meta import APIStruct, Resource


class _Part(APIStruct, frozen=True):
    name: str = ""
    size: int = 0
    share: float = 0.0
    is_on: bool = False
    more: "tuple[_Part, ...]" = ()
    amount: str | int | float = "0"


class _Whole(Struct, frozen=True):
    part: _Part
    parts: dict[str, _Part] | None = None
    lists: dict[str, tuple[str, ...]] | None = None
    rows: tuple[tuple[int, ...], ...] = ()
    kept: Raw = Raw(b"{}")
    anything: Any = 1


def _decoded(text: str) -> _Whole:
    return Decoder(_Whole).decode(text.encode())


_NOTHING = _Whole(_Part())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"part":null}', _NOTHING),
        ('{"part":{"name":null,"size":null,"share":null,"isOn":null}}', _NOTHING),
        ('{"part":{"more":null,"amount":null}}', _NOTHING),
        ('{"part":{"more":[null]}}', _Whole(_Part(more=(_Part(),)))),
        (
            '{"part":{},"parts":{"a":null,"b":{"more":[{"name":null}]}}}',
            _Whole(_Part(), {"a": _Part(), "b": _Part(more=(_Part(),))}),
        ),
        (
            '{"part":{},"lists":{"a":null,"b":[null,"x"]}}',
            _Whole(_Part(), None, {"a": (), "b": ("", "x")}),
        ),
        ('{"part":{},"rows":[null,[1,null]]}', _Whole(_Part(), rows=((), (1, 0)))),
        ('{"part":null,"parts":null,"lists":null,"rows":null}', _NOTHING),
        ('{"part":{"unknown":{"name":null},"name":null}}', _NOTHING),
    ],
)
def test_null_is_the_zero_value(text: str, expected: _Whole) -> None:
    found = _decoded(text)
    assert msgspec.structs.replace(found, kept=expected.kept) == expected


def test_a_field_that_is_kept_as_bytes_keeps_its_nulls() -> None:
    """The same holds for a field that may be anything."""
    found = _decoded('{"part":null,"kept":{"a":null,"b":[null]},"anything":null}')
    assert bytes(found.kept) == b'{"a":null,"b":[null]}'
    assert found.anything is None


@pytest.mark.parametrize(
    "text",
    ["null", "[]", '{"part":5}', '{"part":{"name":null,"size":"x"}}', '{"part":{"size'],
)
def test_any_other_form_is_refused(text: str) -> None:
    """A document that is null as a whole says nothing, so it is refused, too."""
    with pytest.raises(msgspec.DecodeError):
        _decoded(text)


def test_a_metric_of_an_adapter_may_have_nulls() -> None:
    """Adapters are aggregated APIs, and may be written in any language."""
    body = b'{"items":[{"describedObject":{"name":null},"value":null},null]}'
    found = Decoder(MetricValueList).decode(body).items
    assert found is not None
    assert [(each.described_object.name, each.value) for each in found] == [
        ("", "0"),
        ("", "0"),
    ]


def _all_resources() -> list[Resource[Any]]:
    """Return the resources of all modules of the package of types."""
    prefix = f"{api.__name__}."
    names = [each.name for each in pkgutil.walk_packages(api.__path__, prefix)]
    found = {
        (each.group, each.version, each.plural, each.type): each
        for name in names
        for each in vars(importlib.import_module(name)).values()
        if isinstance(each, Resource)
    }
    return list(found.values())


def _filled(declared: Any, depth: int = 0) -> Any:
    """Return a JSON value of a type in which each part that is kept as bytes is set.

    `None` for a value that has no such part.
    """
    if declared is Raw:
        return {"filler": "x" * 100}
    origin, arguments = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        inner = (_filled(each, depth) for each in arguments)
        return next((each for each in inner if each is not None), None)
    if origin is tuple:
        inner = _filled(arguments[0], depth)
        return None if inner is None else [inner]
    if origin is dict:
        inner = _filled(arguments[1], depth)
        return None if inner is None else {"a": inner}
    if isinstance(declared, type) and issubclass(declared, Struct) and depth < 12:
        parts = {
            each.encode_name: _filled(each.type, depth + 1) for each in fields(declared)
        }
        return {name: part for name, part in parts.items() if part is not None} or None
    return None


WITH_BYTES = [
    (each, body)
    for each in _all_resources()
    if (body := _filled(each.type)) is not None
]


def _name(given: object) -> str:
    return given.kind if isinstance(given, Resource) else ""


def test_there_are_types_that_keep_bytes() -> None:
    kinds = {each.kind for each, _ in WITH_BYTES}
    assert {"CronJob", "PodGroup", "StorageVersion", "Deployment", "Pod"} <= kinds
    assert "Node" not in kinds


@pytest.mark.parametrize(("resource", "body"), WITH_BYTES, ids=_name)
def test_the_message_is_released(resource: Resource[Any], body: Any) -> None:
    decoder = msgspec.json.Decoder(resource.type)
    message = msgspec.json.encode(body)
    before = sys.getrefcount(message)
    obj = decoder.decode(message)
    assert sys.getrefcount(message) == before, obj
