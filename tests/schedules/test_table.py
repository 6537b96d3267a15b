"""All rows that upstream's own parser computed come out the same."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from controller_manager.schedules.parsing import parse_in_zone

ROWS = json.loads((Path(__file__).parents[1] / "data" / "cron-next.json").read_text())


SCHEDULES = sorted({row["schedule"] for row in ROWS})


def computed(row: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {
        each: row[each] for each in ("schedule", "timeZone", "from") if each in row
    }
    try:
        schedule = parse_in_zone(row["schedule"], row.get("timeZone"))
    except ValueError as error:
        return {**asked, "next": None, "error": str(error)}
    moment: datetime | None = datetime.fromisoformat(row["from"])
    found: list[str] = []
    while len(found) < 3 and moment is not None:
        moment = schedule.next_after(moment)
        if moment is not None:
            found.append(moment.isoformat().replace("+00:00", "Z"))
    return {**asked, "next": found or None}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_schedule_has_the_results_that_upstream_computed(schedule: str) -> None:
    rows = [row for row in ROWS if row["schedule"] == schedule]
    wanted = [{**row, "next": row["next"] or None} for row in rows]
    assert [computed(row) for row in rows] == wanted


def test_the_table_is_whole() -> None:
    assert len(ROWS) == 561
    assert sum("error" in row for row in ROWS) == 106
