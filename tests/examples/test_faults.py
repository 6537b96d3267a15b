"""The tests of the example pass, and the one that finds the bug finds it."""

import subprocess
import sys

import pytest

from tests.distributions import ROOT, environment, plugin_arguments


@pytest.mark.slow
def test_the_planted_bug_is_found() -> None:
    """By one fault of the four, and by no test of the mended controller."""
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
    assert "5 passed, 1 xfailed" in result.stdout
