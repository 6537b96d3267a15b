"""The three operators do the same work, and docs/operators-measured.md its figures."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.benchmarks.clusters import cluster_for
from tests.benchmarks.operators import measuring
from tests.benchmarks.operators.__main__ import main
from tests.benchmarks.operators.measuring import (
    CONFIG_MAPS,
    CONTENDERS,
    PATIENCE,
    WIDGETS,
    User,
    define,
)
from tests.benchmarks.operators.page import (
    COSTS,
    NAMES,
    SIZES,
    Run,
    median,
    medians,
    updated,
)
from tests.benchmarks.pages import read_runs, write_runs

_DOCS = Path(__file__).parents[3] / "docs"
_RUNS = read_runs(_DOCS / "operators-measured.json", Run)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTENDERS)
async def test_the_operators_do_the_same(name: str, tmp_path: Path) -> None:
    """A widget that is created or changed, a config map that is changed or deleted."""
    async with cluster_for(None, 0, nodes=0) as cluster:
        user = User(cluster.driver)
        await define(cluster.driver)
        log = tmp_path / "log"
        with CONTENDERS[name].running(cluster.kubeconfig, log) as running:
            async with user.watching():
                for act in (user.create, user.change, user.damage, user.remove):
                    await act("a")
                    await user.until_right(["a"], running)
        found = await cluster.driver.call("GET", f"{CONFIG_MAPS}/a")
        widget = await cluster.driver.call("GET", f"{WIDGETS}/a")
    assert found["data"] == {"color": widget["spec"]["color"], "replicas": "3"}
    assert found["metadata"]["labels"] == {"example.com/widget": "a"}
    (owner,) = found["metadata"]["ownerReferences"]
    assert owner["uid"] == widget["metadata"]["uid"]
    assert owner["controller"]
    assert widget["status"] == {"observedGeneration": 2}


@pytest.mark.nightly
def test_a_run_has_all_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest one: nobody waits until silent watches are noticed."""
    for name in ("_REST", "_WINDOW", "PATIENCE"):
        monkeypatch.setattr(measuring, name, 2.0)
    monkeypatch.setattr(measuring, "_CHANGES", 5)
    monkeypatch.setattr(measuring, "_MENDED", 2)
    into = tmp_path / "runs.json"
    arguments = ["measure", "--objects=30", "--repeat=1", f"--into={into}"]
    outcome = CliRunner().invoke(main, arguments)
    assert outcome.exit_code == 0, outcome.output
    for run in read_runs(into, Run):
        for row in COSTS:
            value = median([run], row, "devcluster", run.contender, 30)
            assert value is not None, row.title
        assert run.figures["burst: POST"] == 30


def test_the_tables_show_the_figures_in_the_file() -> None:
    """``python -m tests.benchmarks.operators draw`` writes them."""
    page = (_DOCS / "operators-measured.md").read_text()
    assert updated(page, _RUNS) == page


def test_each_operator_was_measured() -> None:
    """Three times with 1,000 widgets, with and without faults; also with 10,000."""
    small, large = SIZES
    for figure, size, times in (
        ("rest: resident, MB", small, 3),
        ("restart: CPU, s", small, 3),
        ("conflict, s", small, 3),
        ("rest: resident, MB", large, 1),
    ):
        done = [
            each.contender
            for each in _RUNS
            if (each.cluster, each.objects) == ("devcluster", size)
            and figure in each.figures
        ]
        assert min(map(done.count, NAMES)) >= times, figure


def test_a_change_that_was_never_handled_is_said_so(tmp_path: Path) -> None:
    """The median is that of the runs with the figure; figures have three digits."""
    row = COSTS[-1]
    figure = "rest: CPU a second, ms"
    values = (PATIENCE, PATIENCE, 1.23456)
    runs = [Run(name, 7, "x", {figure: each}) for name in NAMES for each in values]
    path = tmp_path / "runs.json"
    write_runs(path, runs)
    assert read_runs(path, Run)[2].figures == {figure: 1.23}
    assert medians(runs, [row], "x", [7]).splitlines()[-1] == (
        f"| {row.title} | not within 300 | not within 300 | not within 300 |"
    )
    assert "|  |  |" in medians(runs, [row], "y", [7])
