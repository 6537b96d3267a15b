"""The benchmarks run, and count what they say they count."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.benchmarks.__main__ import main
from tests.benchmarks.contenders import OURS
from tests.benchmarks.report import draw


@pytest.mark.slow
def test_a_rollout_is_measured_beside_another_manager(tmp_path: Path) -> None:
    """Here the other one is this one again; writes are counted one by one."""
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
        assert measured["create: resident, MB"] > 10
    assert "ratio" in outcome.output


@pytest.mark.slow
def test_a_contender_that_cannot_run_is_one_clear_line() -> None:
    """It is named, with the last that it said."""
    command = f"{sys.executable} -c 'import sys; sys.exit(\"no luck\")' {{kubeconfig}}"
    outcome = CliRunner().invoke(main, ["cold-start", "--versus", command])
    assert outcome.exit_code == 1
    assert outcome.stderr == "error: versus has ended with 1: no luck\n"


def test_a_contender_must_say_where_the_kubeconfig_goes() -> None:
    """Or it would run against whatever cluster it finds."""
    outcome = CliRunner().invoke(main, ["idle", "--versus", "manager"])
    assert (outcome.exit_code, outcome.stderr) == (
        1,
        "error: --versus: {kubeconfig} must say where the kubeconfig belongs\n",
    )


def test_cost_against_size_is_drawn(tmp_path: Path) -> None:
    """As a picture that a browser shows."""
    path = tmp_path / "cost.svg"
    draw(path, {"idle pods": {"ours": {1: {"CPU": 2.0}, 10: {"CPU": 2.1}}}})
    assert path.read_text().startswith("<?xml")
