"""The benchmarks run, and their figures are what their names say."""

import ast
import asyncio
import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner

from controller_manager.manager.manager import STRICT_READS
from tests.benchmarks import heartbeats as benchmark_of_heartbeats
from tests.benchmarks import workloads
from tests.benchmarks.__main__ import main
from tests.benchmarks.answers import Answers, steady_requests
from tests.benchmarks.contenders import OURS, Contender
from tests.benchmarks.metrics import sums
from tests.benchmarks.report import draw


def test_a_measured_manager_has_no_variable_of_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The strict mode of the caches costs much; users never have it."""
    monkeypatch.setenv("OF_A_USER", "kept")
    assert STRICT_READS in os.environ
    program = "import os; print(sorted(os.environ), flush=True)"
    command = shlex.join([sys.executable, "-c", program])
    log = tmp_path / "log"
    with Contender("one", command).running(tmp_path / "kubeconfig", log) as running:
        running.process.wait(20)
    seen = set(ast.literal_eval(log.read_text()))
    assert "OF_A_USER" in seen
    assert seen & {STRICT_READS, "PYTHONDONTWRITEBYTECODE"} == set()


@pytest.mark.nightly
def test_a_rollout_is_measured_beside_another_manager(tmp_path: Path) -> None:
    """Here the other manager is this one again; every write is counted."""
    path = tmp_path / "figures.json"
    outcome = CliRunner().invoke(
        main,
        [
            "rollout",
            "--deployments=2",
            "--replicas=3",
            f"--json={path}",
            "--versus",
            OURS,
        ],
    )
    assert outcome.exit_code == 0, outcome.output
    figures = json.loads(path.read_text())["results"]["rollout"]
    assert set(figures) == {"controller-manager", "versus"}
    for measured in figures.values():
        assert measured["create: POST"] == 2 + 2 * 3
        assert measured["roll: POST"] == 2 + 2 * 3
        assert measured["scale down: DELETE"] == 2 * 3
        assert measured["scale down: PATCH"] == 2
        assert measured["create: CPU, s"] > 0
        assert measured["create: CPU until at rest, s"] >= measured["create: CPU, s"]
        assert measured["create: resident, MB"] > 10
    assert "ratio" in outcome.output


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("arguments", "requests"),
    [
        (
            ("statefulset", "--stateful-sets=2"),
            # A revision and twenty pods of each set; a roll replaces every pod.
            {"create: POST": 42, "roll: POST": 42, "roll: DELETE": 40},
        ),
        (("jobs", "--jobs=2"), {"run: POST": 20, "run: PATCH": 20}),
        # Two budgets of twenty pods; each change of a pod concerns one of them.
        (("budgets", "--idle-pods=40"), {"pod: PUT a change": 1}),
        # The volume, its status, the claim and its status.
        (("volumes", "--claims=20"), {"binding: PUT a claim": 4}),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_workloads_are_brought_to_completion(
    tmp_path: Path, arguments: tuple[str, ...], requests: dict[str, float]
) -> None:
    """With the pods that each of them asks for, and no more."""
    path = tmp_path / "figures.json"
    outcome = CliRunner().invoke(main, [*arguments, f"--json={path}"])
    assert outcome.exit_code == 0, outcome.output
    results = json.loads(path.read_text())["results"]
    figures = results[arguments[0]]["controller-manager"]
    assert {name: figures[name] for name in requests} == requests


@pytest.mark.nightly
def test_volumes_that_are_attached_already_cost_no_write(tmp_path: Path) -> None:
    """They are found in the attachments and in the nodes' statuses."""
    path = tmp_path / "figures.json"
    arguments = ["attachments", "--attachments=60", f"--json={path}"]
    outcome = CliRunner().invoke(main, arguments)
    assert outcome.exit_code == 0, outcome.output
    results = json.loads(path.read_text())["results"]
    figures = results["attachments"]["controller-manager"]
    assert figures["attachments: known"] == 2 * 60
    assert figures["attachments: writes"] == 0
    assert figures["attachments: CPU, s"] > 0


@pytest.mark.nightly
def test_nodes_that_are_alive_cost_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each renews its lease every ten seconds; a status is due later."""
    monkeypatch.setattr(benchmark_of_heartbeats, "_SECONDS", 2.0)
    monkeypatch.setattr(benchmark_of_heartbeats, "_WARM_UP", 1.0)
    path = tmp_path / "figures.json"
    arguments = ["heartbeats", "--renewing-nodes=100", f"--json={path}"]
    outcome = CliRunner().invoke(main, arguments)
    assert outcome.exit_code == 0, outcome.output
    results = json.loads(path.read_text())["results"]
    figures = results["heartbeats"]["controller-manager"]
    assert figures["heartbeats: writes"] == 0
    assert 9 < figures["heartbeats: a second"] < 12
    assert figures["heartbeats: CPU a second, ms"] >= 0


@pytest.mark.nightly
def test_a_contender_that_cannot_run_is_one_clear_line() -> None:
    """The line names it, with the last line of its output."""
    command = f"{sys.executable} -c 'import sys; sys.exit(\"no luck\")' {{kubeconfig}}"
    outcome = CliRunner().invoke(
        main, ["cold-start", "--idle-pods", "0", "--versus", command]
    )
    assert outcome.exit_code == 1
    assert outcome.stderr == "error: versus has ended with 1: no luck\n"


def test_a_contender_must_say_where_the_kubeconfig_goes() -> None:
    """Otherwise it would run against the default cluster."""
    outcome = CliRunner().invoke(main, ["idle", "--versus", "manager"])
    assert (outcome.exit_code, outcome.stderr) == (
        1,
        "error: --versus: {kubeconfig} must say where the kubeconfig belongs\n",
    )


@pytest.mark.nightly
def test_cost_against_size_is_drawn(tmp_path: Path) -> None:
    """As a picture that a browser shows."""
    path = tmp_path / "cost.svg"
    draw(path, {"idle pods": {"ours": {1: {"CPU": 2.0}, 10: {"CPU": 2.1}}}})
    assert path.read_text().startswith("<?xml")


_SETTLED = {
    "settled: CPU, s",
    "settled: longest turn, ms",
    "settled: slowest answer, ms",
    "settled: 99th percentile, ms",
    "settled: GET",
    "settled: WATCH",
}


def _settled(directory: Path) -> dict[str, float]:
    path = directory / "figures.json"
    outcome = CliRunner().invoke(
        main, ["settled", "--replica-sets=30", f"--json={path}"]
    )
    assert outcome.exit_code == 0, outcome.output
    results = json.loads(path.read_text())["results"]
    figures: dict[str, float] = results["settled"]["controller-manager"]
    return figures


@pytest.mark.nightly
def test_each_settled_replica_set_is_looked_at(tmp_path: Path) -> None:
    """Nothing is written, because each has all its pods."""
    figures = _settled(tmp_path)
    assert set(figures) == {*_SETTLED, "settled: syncs"}
    assert figures["settled: syncs"] >= 30
    assert figures["settled: CPU, s"] > 0.1
    assert figures["settled: 99th percentile, ms"] > 0
    assert figures["settled: slowest answer, ms"] < 5000
    assert (
        figures["settled: longest turn, ms"] != figures["settled: slowest answer, ms"]
    )


@pytest.mark.nightly
def test_without_the_metric_the_slowest_answer_stands_for_the_longest_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For another manager, or one that does not serve its metrics to the user."""

    async def none(*_: object) -> dict[str, float]:
        return {}

    monkeypatch.setattr(workloads, "read_metrics", none)
    figures = _settled(tmp_path)
    assert set(figures) == _SETTLED
    assert (
        figures["settled: longest turn, ms"] == figures["settled: slowest answer, ms"]
    )


def test_settled_replica_sets_need_a_cluster_of_our_own(tmp_path: Path) -> None:
    """They are stored without admission."""
    path = tmp_path / "kubeconfig"
    path.touch()
    outcome = CliRunner().invoke(main, ["settled", f"--kubeconfig={path}"])
    assert (outcome.exit_code, outcome.stderr) == (
        1,
        "error: settled needs the cluster of its own; leave out --kubeconfig\n",
    )


async def test_a_question_does_not_wait_for_the_answer_to_the_last_one() -> None:
    """The second request is answered only after the fourth has been sent."""
    questions = 0
    asked_four = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        nonlocal questions
        questions += 1
        if questions == 4:
            asked_four.set()
        if questions > 1:
            await asked_four.wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/livez", answer)
    async with (
        asyncio.timeout(10),
        TestServer(app) as server,
        steady_requests(str(server.make_url("/livez"))),
    ):
        await asked_four.wait()
    assert questions >= 4


def test_only_answers_that_were_due_before_the_end_count() -> None:
    """Later answers, of an idle manager, would hide the late ones."""
    answers = Answers([(1.0, 0.3), (2.0, 0.1), (3.0, 0.2)])
    assert answers.until(3.0) == [0.1, 0.3]


def test_all_series_of_a_metric_are_added_up() -> None:
    """A metric with a series for each queue or controller becomes one figure."""
    counter = '# TYPE a counter\na_total{name="x"} 2\na_total{name="y"} 3\n'
    text = counter + "# TYPE b gauge\nb 4\n"
    assert sums(text) == {"a_total": 5.0, "b": 4.0}
