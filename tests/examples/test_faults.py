"""The tests of the example pass, and the two that find the bug find it."""

import subprocess
import sys

import pytest

from tests.distributions import ROOT, environment, plugin_arguments


@pytest.mark.slow
def test_the_planted_bug_is_found() -> None:
    """By a lost answer and a crash, and by no test of the mended controller."""
    arguments = ("-q", "-n0", "-p", "no:cacheprovider", *plugin_arguments())
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, "examples/e8_faults.py"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "6 passed, 2 xfailed" in result.stdout
