"""Null is the zero value of any type, as Go reads it."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw, Struct

from controller_manager.api.custom_metrics.v1beta2 import MetricValueList
from controller_manager.api.json_objects import Decoder
from controller_manager.api.meta import APIStruct


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
