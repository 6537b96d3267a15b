"""Sampled tests run in parts, one a day; durations are added up over the files."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests import conftest
from tests.durations import PROPERTY, DurationRecorder


def on_day(number: int) -> Any:
    """Return a stand-in for `datetime` whose day has this number."""

    class Day(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Day":
            return cls(2026, 1, 1, tzinfo=tz) + timedelta(days=number)

    return Day


def parts(
    monkeypatch: pytest.MonkeyPatch, items: list[Any], days: int
) -> Iterator[list[Any]]:
    for number in range(days):
        monkeypatch.setattr(conftest, "datetime", on_day(number))
        yield conftest.sample(items, days)


@pytest.mark.parametrize("days", [1, 2, 7, 28])
def test_every_sampled_test_runs_on_one_of_its_days(
    monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    items = [f"test {number}" for number in range(30)]
    found = list(parts(monkeypatch, items, days))
    assert sorted(name for part in found for name in part) == sorted(items)
    assert {len(part) for part in found} <= {30 // days, 30 // days + 1}
    assert datetime.now(UTC).tzinfo is UTC


def report(path: str, when: Any, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(
        f"{path}::test",
        (path, 1, "test"),
        {},
        "passed",
        None,
        when,
        user_properties=[(PROPERTY, seconds)],
    )


def test_the_cost_of_a_file_is_the_sum_of_its_tests() -> None:
    """Each test is counted once, by its last report."""
    recorder = DurationRecorder()
    for path, when, seconds in (
        ("tests/a.py", "call", 7.0),
        ("tests/a.py", "teardown", 1.5),
        ("tests/a.py", "teardown", 2.0),
        ("tests/b.py", "teardown", 0.25),
    ):
        recorder.pytest_runtest_logreport(report(path, when, seconds))
    assert recorder.files == {"tests/a.py": 3.5, "tests/b.py": 0.25}
