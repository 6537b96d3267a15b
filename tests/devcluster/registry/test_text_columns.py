"""Columns as text: each word, and a clear error for a wrong text."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.kinds import TextColumns

NOW = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
OBJ: JSON = {
    "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {
        "zone": "UTC",
        "count": 0,
        "items": [{"name": "x", "size": 5}, {"name": "y"}],
        "seconds": 3600,
        "selector": {"matchLabels": {"b": "2"}},
    },
}


def _condition(obj: JSON) -> str:
    return f"of {obj['metadata']['name']}"


def _many(_: JSON) -> list[str]:
    return list("abcde")


def _none(_: JSON) -> None:
    return None


def _empty(_: JSON) -> str:
    return ""


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        (".spec.zone", "UTC"),
        (".spec.absent", ""),
        (".spec.absent.deeper or <none>", "<none>"),
        (".spec.count or <none>", 0),
        ("count .spec.items", 2),
        ("join .spec.items[].name", "x,y"),
        ("sum .spec.items[].size", 5),
        ("few many", "a,b,c + 2 more..."),
        ("few none or <none>", "<none>"),
        ("filled empty or <none>", "<none>"),
        ("duration .spec.seconds or <none>", "60m"),
        ("since .metadata.creationTimestamp", "30s"),
        ("selector .spec.selector", "b=2"),
        ("{.spec.zone}/{.metadata.name} or <unset>", "UTC/a"),
        ("{.spec.zone}/{.spec.absent} or <unset>", "<unset>"),
        ("condition", "of a"),
    ],
)
def test_a_cell_shows_a_value(cell: str, value: Any) -> None:
    assert TextColumns(f"X: {cell}", globals()).cells(OBJ, NOW) == [value]


def test_titles_may_have_a_type_and_a_priority() -> None:
    shown = TextColumns(
        "Name; Last Seen integer wide: .spec.absent; Created At\nAge", {}
    )
    assert [tuple(each)[:3] for each in shown.columns] == [
        ("Name", "string", 0),
        ("Last Seen", "integer", 1),
        ("Created At", "date", 0),
        ("Age", "string", 0),
    ]
    assert shown.cells(OBJ, NOW) == ["a", 0, "2026-01-01T00:00:00Z", "30s"]


@pytest.mark.parametrize("line", ["X", "X: most .spec.items", "X: conditions"])
def test_a_wrong_text_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is no path, no word and no function") as told:
        TextColumns(line, globals()).cells(OBJ, NOW)
    assert repr(line) in str(told.value)
