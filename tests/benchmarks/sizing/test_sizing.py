"""The runs, the model, the table and the drawing of docs/sizing.md."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from controller_manager.api.quantity import parse_quantity
from tests.benchmarks.pages import read_runs, write_runs
from tests.benchmarks.sizing import cluster
from tests.benchmarks.sizing.__main__ import main
from tests.benchmarks.sizing.figures import (
    CREATE,
    DELETE,
    MANAGERS,
    PEAK,
    PROJECT,
    REST,
    Line,
    Run,
    line_through,
    medians,
    model,
    spread,
    values,
)
from tests.benchmarks.sizing.page import sizes_table, updated
from tests.benchmarks.sizing.plot import draw

_ROOT = Path(__file__).parents[3]
_DOCS = _ROOT / "docs"
_RUNS = read_runs(_DOCS / "sizing.json", Run)


def test_the_tables_and_the_drawing_show_the_figures_in_the_file() -> None:
    """``python -m tests.benchmarks.sizing draw`` writes both."""
    page = (_DOCS / "sizing.md").read_text()
    assert updated(page, _RUNS) == page
    assert draw(_RUNS) == (_DOCS / "sizing.svg").read_text()


def test_each_size_was_measured_twice_with_each_manager() -> None:
    runs = {each: values(_RUNS, each, PEAK) for each in MANAGERS}
    assert all(list(found)[:4] == [30, 100, 300, 1000] for found in runs.values())
    assert all(len(each) >= 2 for found in runs.values() for each in found.values())


def test_the_static_pod_requests_what_a_cluster_of_a_hundred_nodes_needs() -> None:
    """Without a limit: the page says what to request on larger clusters."""
    patches = yaml.safe_load(
        (
            _ROOT / "config/static-pod/patches/kube-controller-manager+json.yaml"
        ).read_text()
    )
    (resources,) = (
        each["value"] for each in patches if each["path"].endswith("/resources")
    )
    peak = medians(_RUNS, PROJECT, PEAK)[100] * 1024 * 1024
    share = medians(_RUNS, PROJECT, REST)[1000] / 1000
    assert set(resources) == {"requests"}
    assert parse_quantity(resources["requests"]["memory"]).value >= peak
    assert parse_quantity(resources["requests"]["cpu"]).milli_value / 1000 >= share


def test_the_line_through_points_of_a_line_is_that_line() -> None:
    line = line_through({10: 120.0, 100: 300.0, 1000: 2100.0})
    assert line.start == pytest.approx(100)
    assert line.slope == pytest.approx(2)
    assert line.error == pytest.approx(0)


def test_what_a_pod_costs_does_not_grow_with_the_cluster() -> None:
    """Its model is the mean, whose difference from a median is the error."""
    runs = [Run(PROJECT, 30, {CREATE: 2.0}), Run(PROJECT, 100, {CREATE: 3.0})]
    assert model(runs, PROJECT, CREATE) == Line(2.5, 0.0, 0.25)


def test_the_error_of_a_line_is_its_largest_difference_relative_to_a_point() -> None:
    assert line_through({0: 1.0, 1: 1.0, 2: 1.5}).error == pytest.approx(0.14, abs=0.02)


def test_a_size_without_a_run_is_marked_as_modelled() -> None:
    """Measured ones are medians."""
    runs = [
        Run(manager, nodes, dict.fromkeys(_RUNS[0].figures, 10.0 + nodes + more))
        for manager in MANAGERS
        for nodes in (100, 1000)
        for more in (0, 2)
    ]
    table = sizes_table(runs).splitlines()
    assert table[2] == (
        "| 100 | 3,000 | `controller-manager` | 111 | 111 | 111 | 111 | 111 | 111 |"
    )
    assert table[-1].startswith(
        "| 5,000 | 150,000 | `kube-controller-manager` | ~5,000"
    )


def test_the_spread_is_that_of_equal_runs() -> None:
    assert spread({30: [100.0, 110.0], 100: [300.0, 300.0]}) == pytest.approx(0.1)


def test_runs_are_written_in_order_with_three_digits(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    write_runs(path, [Run("b", 2, {"x": 1.23456}), Run("b", 1, {"x": 123456.0})])
    assert read_runs(path, Run) == [
        Run("b", 1, {"x": 123000.0}),
        Run("b", 2, {"x": 1.23}),
    ]


@pytest.mark.nightly
def test_a_manager_finds_nothing_to_do_on_a_cluster_of_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes what one new workload needs, however many others there are."""
    monkeypatch.setattr(cluster, "_REST", 1.0)
    monkeypatch.setattr(cluster, "_WINDOW", 1.0)
    monkeypatch.setattr(cluster, "_CHANGED", 20)
    into = tmp_path / "runs.json"
    outcome = CliRunner().invoke(
        main, ["measure", "--nodes=10", "--repeat=1", f"--into={into}"]
    )
    assert outcome.exit_code == 0, outcome.output
    (found,) = json.loads(into.read_text())
    figures = found["figures"]
    assert (found["manager"], found["nodes"]) == (PROJECT, 10)
    assert 15 <= figures["start: writes"] <= 40
    assert figures["rest: resident, MB"] <= figures["end: peak, MB"]
    # The differences of CPU times may be zero or less within so short a time.
    small = {name for name, value in figures.items() if value <= 0}
    assert small <= {REST, CREATE, DELETE}


def test_a_line_gives_the_value_of_any_size() -> None:
    assert Line(100.0, 2.0, 0.0).at(50) == 200.0
