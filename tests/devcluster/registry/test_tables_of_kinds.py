"""Each built-in kind has the columns and the cells of upstream's printers.

Upstream: pkg/printers/internalversion/printers.go.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry import find_kinds

NOW: Final = datetime(2026, 1, 1, 0, 2, 5, tzinfo=UTC)
METADATA: Final = {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}
FILE: Final = Path(__file__).parents[2] / "data" / "devcluster" / "tables.yaml"
TABLES: Final = yaml.load(FILE.read_text(), yaml.CSafeLoader)


@pytest.mark.parametrize("table", TABLES, ids=lambda each: str(each["resource"]))
def test_a_table_is_that_of_upstream(table: JSON) -> None:
    resource = table["resource"]
    kind = next(each for each in find_kinds() if each.resource == resource)
    strategy, conversion = kind.strategy, kind.conversion
    titles = [
        (each.title.lower() if each.priority else each.title).replace(" ", "_")
        for each in strategy.table_columns()
    ]
    assert titles == table["columns"].split()
    for row in table.get("rows", ()):
        obj, metadata = row["object"], row["object"].get("metadata", {})
        given = {**obj, "metadata": {**METADATA, **metadata}}
        if conversion:
            given = conversion.to_stored(given)
        assert strategy.cells(given, NOW) == row["cells"]


def test_every_kind_has_its_table_here() -> None:
    shown = {table["resource"] for table in TABLES}
    assert {kind.resource for kind in find_kinds() if "list" in kind.verbs} <= shown
