"""The benchmarks of the development cluster run, and their figures are plausible."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.benchmarks.devcluster.__main__ import main
from tests.benchmarks.devcluster.held import measure_held


@pytest.mark.slow
def test_many_objects_are_measured() -> None:
    figures = asyncio.run(measure_held(600))
    assert figures.keys() == {
        "pods, created /s",
        "memory of a pod, kB",
        "list of all, ms",
        "the first page of 500, ms",
        "all pages of 500, ms",
        "list by label, ms",
        "watch of all from the start, ms",
        "patches beside them, /s",
    }
    assert figures["pods, created /s"] > 50
    # A process that has freed memory before needs none for a few hundred pods.
    times = {name: each for name, each in figures.items() if "memory" not in name}
    assert all(each > 0 for each in times.values())


@pytest.mark.slow
def test_requests_are_measured(tmp_path: Path) -> None:
    """Clients in another process create objects and delete them again."""
    path = tmp_path / "figures.json"
    outcome = CliRunner().invoke(
        main, ["requests", "--data", "--pods=20", "--clients=4", f"--json={path}"]
    )
    assert outcome.exit_code == 0, outcome.output
    figures = json.loads(path.read_text())["results"]["requests"]["now"]
    rates = [value for name, value in figures.items() if name.endswith("/s")]
    assert len(rates) == 6
    assert min(rates) > 1
    assert figures["CPU of the cluster, s"] > 0
    assert figures["memory of the cluster, MB"] > 10
