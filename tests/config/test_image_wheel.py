"""The wheel of the image has the daemon, and not the development cluster."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from controller_manager.version import NAME

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools import build_meta as b; b.build_wheel(sys.argv[1])"


def made(directory: Path) -> ZipFile:
    """Build the wheel as config/image/install does, without a network."""
    source = directory / "source"
    script = ROOT / "config" / "image" / "source"
    subprocess.run([script, source], cwd=ROOT, check=True)
    command = [sys.executable, "-c", BUILD, str(directory)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    return ZipFile(wheel)


@pytest.mark.slow
def test_the_image_has_no_development_cluster(tmp_path: Path) -> None:
    """Neither its files nor its subcommands; all else that the source has is there."""
    with made(tmp_path) as wheel:
        files = [name for name in wheel.namelist() if not name.endswith("/")]
        wheel.extractall(tmp_path / "app")
    package = ROOT / "controller_manager"
    expected = {
        str(each.relative_to(ROOT))
        for pattern in ("*.py", "py.typed", "cli/project/**/*.txt")
        for each in package.rglob(pattern)
        if not each.is_relative_to(package / "devcluster")
        if each != package / "testing.py"
    }
    assert {each for each in files if each.startswith("controller_manager/")} == (
        expected
    )
    helped = run(tmp_path / "app", "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    listed = helped.stdout.partition("Available Commands:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines()] == [
        "completion",
        "config",
        "crds",
        "doctor",
        "explain",
        "help",
        "new",
        "preview",
        "roles",
        "version",
    ]
    assert "devcluster" not in helped.stdout
    assert f"{NAME} demo" not in helped.stdout
    refused = run(tmp_path / "app", "devcluster")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith('Error: unknown command "devcluster" for ')


def run(app: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(app)}
    return subprocess.run(
        [sys.executable, "-m", "controller_manager", *arguments],
        cwd=app,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
