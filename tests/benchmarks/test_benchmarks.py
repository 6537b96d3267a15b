"""The benchmarks run, and their figures are what their names say."""

import ast
import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller_manager.manager.manager import STRICT_READS
from tests.benchmarks.__main__ import main
from tests.benchmarks.contenders import OURS, Contender


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
    outcome = CliRunner().invoke(main, ["--versus", "manager"])
    assert (outcome.exit_code, outcome.stderr) == (
        1,
        "error: --versus: {kubeconfig} must say where the kubeconfig belongs\n",
    )
