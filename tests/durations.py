"""Record the cost of every test, and show the costly ones.

``pytest --record-durations`` writes the CPU seconds of each file to
``tests/data/durations.json``; ``python -m tests.durations`` shows them.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Final

import click
import pytest

RECORD: Final = Path(__file__).parent / "data" / "durations.json"
PROPERTY: Final = "cpu seconds"
_STARTED: Final = pytest.StashKey[float]()


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


class DurationRecorder:
    def __init__(self) -> None:
        self.files: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item
    ) -> Generator[None, object, object]:
        item.stash[_STARTED] = cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        if call.when == "teardown":
            spent = cpu_seconds() - item.stash[_STARTED]
            item.user_properties.append((PROPERTY, spent))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            spent = dict(report.user_properties).get(PROPERTY, 0.0)
            self.files[report.nodeid.partition("::")[0]] += float(str(spent))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the record; files that this run did not include keep their costs."""
        if hasattr(session.config, "workerinput"):
            return
        write_record({**read_record(), **self.files})


def read_record() -> dict[str, float]:
    if not RECORD.exists():
        return {}
    recorded: dict[str, float] = json.loads(RECORD.read_text())
    return recorded


def write_record(seconds: Mapping[str, float]) -> None:
    root = RECORD.parents[2]
    kept = {
        name: round(seconds[name], 1)
        for name in sorted(seconds)
        if (root / name).exists()
    }
    RECORD.write_text(json.dumps(kept, indent=1) + "\n")


@click.command()
@click.option("--depth", default=2, help="Add up to so many parts of the path.")
@click.option("--count", default=40, help="Show so many lines.")
def main(depth: int, count: int) -> None:
    """Show which tests cost most, by recorded CPU seconds."""
    recorded = read_record()
    sums: defaultdict[str, float] = defaultdict(float)
    for name, seconds in recorded.items():
        sums["/".join(Path(name).parts[:depth])] += seconds
    click.echo(f"{sum(recorded.values()):8.1f}  all")
    costly = sorted(sums.items(), key=itemgetter(1), reverse=True)
    for name, seconds in costly[:count]:
        click.echo(f"{seconds:8.1f}  {name}")


if __name__ == "__main__":
    main()
