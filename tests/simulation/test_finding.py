"""The simulation modules of controllers are found, in this tree and elsewhere."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller_manager import controllers
from controller_manager.registry import registry
from tests.simulation.__main__ import main
from tests.simulation.finding import GROUP, find_properties
from tests.simulation.runner import play

HARNESS = Path(__file__).parent

OUTSIDE = """
from tests.simulation.properties import Properties
from tests.simulation.workload import Workload


class Users(Workload):
    def create_objects(self, namespace):
        kind = self.world.kind("configmaps")
        body = {"metadata": {"name": "outside"}}
        self.world.server.objects.create(kind, namespace, body)


class Outside(Properties):
    controller = "outside-controller"
    workload = Users

    def wrong_at_the_end(self, managers):
        for each in self.state.stored("configmaps"):
            metadata = each["metadata"]
            if metadata["name"] == "outside":
                yield f"{metadata['namespace']} has one, {len(managers)} managers"


PROPERTIES = Outside
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory on the path, with the properties of another package."""
    (tmp_path / "outside_properties.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def names(*more: str) -> set[str]:
    return {each.controller for each in find_properties(more)}


def test_every_controller_of_this_build_has_properties() -> None:
    """Without properties, no violation of a controller would be found."""
    assert names() == set(registry().names)


def test_a_module_outside_this_tree_is_found_by_its_name(outside: Path) -> None:
    """A name that is given twice counts once."""
    assert outside.is_dir()
    module = "outside_properties"
    assert names(module, module) == {*registry().names, "outside-controller"}


def test_the_properties_of_an_installed_package_are_found(outside: Path) -> None:
    """They are found by entry points, as the package's controller is."""
    distribution = outside / "outside-1.0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Name: outside\nVersion: 1.0\n")
    entry = f"[{GROUP}]\noutside = outside_properties\n"
    (distribution / "entry_points.txt").write_text(entry)
    assert names() == {*registry().names, "outside-controller"}


@pytest.mark.slow
def test_a_controller_from_outside_is_treated_like_ours(outside: Path) -> None:
    """Its users act in every namespace, and its promises are checked."""
    assert outside.is_dir()
    outcome = play(3, frozenset(), ("outside_properties",))
    assert outcome.violations == (
        "the end: default has one, 2 managers",
        "the end: shop has one, 2 managers",
    )


@pytest.mark.slow
def test_a_write_that_a_controller_did_not_name_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each write is attributed to the controller that sent it."""
    found = {each.controller: each for each in find_properties()}
    monkeypatch.setattr(found["serviceaccount-controller"], "may_write", ())
    outcome = play(3, frozenset(), users=frozenset(("deployment-controller",)))
    complaints = {each.rpartition(": ")[2] for each in outcome.violations}
    assert complaints == {"serviceaccount-controller may not create serviceaccounts"}


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        ("no_such_module", "No module named 'no_such_module'"),
        ("tests.clusters", "PROPERTIES must be a subclass of Properties"),
    ],
)
def test_a_module_without_properties_is_one_line(module: str, complaint: str) -> None:
    """The message names the module, before any seed is played."""
    result = CliRunner().invoke(main, [f"--properties={module}"])
    assert result.exit_code == 2
    assert f"Error: --properties {module}: {complaint}" in result.output


def test_the_harness_names_no_controller() -> None:
    """All facts about a controller stand beside its tests."""
    areas = Path(controllers.__file__).parent
    found = areas.glob("*/*/__init__.py")
    packages = [path.parent.relative_to(areas) for path in found]
    words = {
        *registry().names,
        *(name.replace("-", " ") for name in registry().names),
        *(".".join(("controllers", *each.parts)) for each in packages),
        "controller_manager.controllers.",
    }
    pattern = re.compile("|".join(sorted(map(re.escape, words))))
    named = {
        (path.name, match.group())
        for path in HARNESS.glob("*.py")
        if path != Path(__file__)
        for match in pattern.finditer(path.read_text())
    }
    assert len(packages) == len(registry().names)
    assert named == set()
