"""Each built-in kind has the columns and the cells of upstream's printers."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry import find_kinds

NOW: Final = datetime(2026, 1, 1, 0, 2, 5, tzinfo=UTC)
CREATED: Final = "2026-01-01T00:00:00Z"
ENDS: Final = {"Age": ["2m5s"], "Created_At": [CREATED], "name": ["a"]}
FILE: Final = Path(__file__).parents[2] / "data" / "tables-of-kinds.yaml"
TABLES: Final[JSON] = yaml.load(FILE.read_text(), yaml.CSafeLoader)
KINDS: Final = {each.resource: each for each in find_kinds()}
ELSEWHERE: Final = frozenset(("jobs.batch",))
"""Kinds with a file of tests about their cells alone."""


@pytest.mark.parametrize("resource", TABLES)
def test_a_table_is_that_of_upstream(resource: str) -> None:
    """By its columns, and by the cells of each row."""
    strategy, table = KINDS[resource].strategy, TABLES[resource]
    titles = [
        (each.title.lower() if each.priority else each.title).replace(" ", "_")
        for each in strategy.table_columns()
    ]
    assert " ".join(titles) == table["columns"]
    start: list[Any] = ["a"] if titles[0] == "Name" else []
    for obj, cells in table["rows"]:
        metadata = {"name": "a", "creationTimestamp": CREATED}
        given = {**obj, "metadata": {**metadata, **obj.get("metadata", {})}}
        expected = [*start, *cells, *ENDS.get(titles[-1], ())]
        assert strategy.cells(given, NOW) == expected


def test_every_kind_has_its_table_here() -> None:
    """Those that are stored."""
    listed = {name for name, kind in KINDS.items() if "list" in kind.verbs}
    assert listed <= TABLES.keys() | ELSEWHERE
