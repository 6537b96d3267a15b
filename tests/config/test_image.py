"""The image, and the wheel in it."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from controller_manager.version import NAME
from tests.distributions import completed

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "config" / "image"
LOCKS = ("requirements.txt", "build-requirements.txt")

# A package, its version, perhaps a condition, and its hashes, one a line.
ENTRY = re.compile(
    r"^(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?: ; (?P<marker>.+?))? \\\n"
    r"(?P<hashes>(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.MULTILINE,
)


def locked(name: str) -> dict[str, Version]:
    text = (IMAGE / name).read_text()
    return {each["name"]: Version(each["version"]) for each in ENTRY.finditer(text)}


def wanted(*keys: str) -> list[Requirement]:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for key in keys:
        found = found[key]
    return [Requirement(each) for each in found]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_packages_with_hashes_and_nothing_else(name: str) -> None:
    text = (IMAGE / name).read_text()
    rest = [
        line
        for line in ENTRY.sub("", text).splitlines()
        if line and not line.lstrip().startswith("#")
    ]
    assert rest == []
    assert "://" not in text
    assert locked(name)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("requirements.txt", ("project", "dependencies")),
        ("build-requirements.txt", ("build-system", "requires")),
    ],
)
def test_a_lock_satisfies_pyproject(name: str, keys: tuple[str, ...]) -> None:
    packages = locked(name)
    assert {
        str(each): str(packages.get(canonicalize_name(each.name)))
        for each in wanted(*keys)
        if canonicalize_name(each.name) not in packages
        or packages[canonicalize_name(each.name)] not in each.specifier
    } == {}


def test_the_input_of_the_build_lock_is_that_of_pyproject() -> None:
    lines = (IMAGE / "build-requirements.in").read_text().split()
    assert lines == [str(each) for each in wanted("build-system", "requires")]


def test_pip_installs_by_hash_only() -> None:
    """In each call of it that needs a network, the others need none."""
    script = (IMAGE / "install").read_text().replace("\\\n", "")
    calls = [line for line in script.splitlines() if "/pip" in line]
    fetching = [line for line in calls if "--require-hashes" in line]
    offline = ("--no-index", "--no-build-isolation", 'pip" check', "uninstall")
    assert len(fetching) == 2
    assert [
        line
        for line in calls
        if line not in fetching and not any(each in line for each in offline)
    ] == []


def test_the_image_is_made_by_the_script_and_its_base_can_be_pinned() -> None:
    """In both stages; pip is called nowhere else."""
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2
    assert "RUN config/image/install /app\n" in text
    assert "pip install" not in text


def test_the_floors_are_those_of_the_decision() -> None:
    record = ROOT / "docs" / "decisions" / "0026-dependencies.md"
    shown = dict(
        re.findall(r"^\| ([a-z_]+) \| ([0-9.]+) \|", record.read_text(), re.MULTILINE)
    )
    floors = {
        each.name: str(each.specifier) for each in wanted("project", "dependencies")
    }
    assert {name: f">={floor}" for name, floor in shown.items()} == {
        name: floors[name] for name in shown
    }
    assert set(shown) == {"aiohttp", "cryptography", "pyjwt", "pyyaml"}


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
    return completed(
        sys.executable, "-m", "controller_manager", *arguments, cwd=app, env=environment
    )
