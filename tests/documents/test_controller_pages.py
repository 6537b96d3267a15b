"""The tables on the pages of the controllers are those of the program."""

import re

import pytest

from controller_manager.devcluster.controlplane import bootstrap_objects
from controller_manager.registry import registry
from tests.documents.facts import ROOT, defaults_by_section, metrics, strings
from tests.documents.markdown import Page, rows

CONTROLLERS = ROOT / "docs" / "controllers"
NAME = re.compile(r"[A-Z][A-Za-z]{3,}|[a-z.]+\.io/[a-z-]+")


def page_of(name: str) -> Page:
    return Page.at(CONTROLLERS / f"{name}.md")


def test_every_controller_has_a_page_and_every_page_a_controller() -> None:
    pages = {path.stem for path in CONTROLLERS.glob("*.md")} - {"README"}
    assert pages == set(registry().names)


@pytest.mark.parametrize("name", registry().names)
def test_a_controllers_page_has_its_flags_with_their_defaults(name: str) -> None:
    shown = {
        re.sub(r"[` ].*", "", cells[0].strip("`")): cells[1]
        for cells in rows(page_of(name).section("Flags"))
    }
    everything = {
        flag: default
        for section in defaults_by_section().values()
        for flag, default in section.items()
    }
    assert shown == {flag: everything[flag] for flag in shown}
    assert set(defaults_by_section().get(name, {})) <= set(shown)


@pytest.mark.slow
def test_every_metric_is_on_a_page_and_those_of_a_controller_on_its_own() -> None:
    general = [
        (ROOT / "docs" / name).read_text() for name in ("reference.md", "devcluster.md")
    ]
    pages = [path.read_text() for path in CONTROLLERS.glob("*.md")]
    made = list(metrics())
    assert len(made) > 40
    for path, metric in made:
        of_controller = [
            page
            for page in pages
            for directory in re.findall(r"^\| code \| `(.+)/` \|$", page, re.MULTILINE)
            if path.is_relative_to(ROOT / directory)
        ]
        places = of_controller or [*general, *pages]
        assert any(f"`{metric}`" in text for text in places), metric


@pytest.mark.parametrize("name", registry().names)
@pytest.mark.slow
def test_the_names_on_a_page_are_those_of_the_code(name: str) -> None:
    page = page_of(name)
    (queues,) = (cells[1] for cells in rows(page.text) if cells[0] == "queues")
    facts = page.section("Events") + page.section(
        "Annotations, labels, finalizers, conditions"
    )
    spans = re.findall(r"`([^`]+)`", facts)
    named_here = {span for span in spans if NAME.fullmatch(span)}
    named_here |= set(re.findall(r"`([^`]+)`", queues))
    assert named_here - strings() == set()


@pytest.mark.parametrize("name", registry().names)
def test_a_controllers_page_has_the_rules_of_its_role(name: str) -> None:
    section = page_of(name).section("Permissions")
    descriptor = registry()[name]
    if descriptor.runs_first:
        assert "system:controller:" not in section
        assert sorted(_shown(section)) == sorted(
            (each.group, [each.resource], sorted(each.verbs))
            for each in descriptor.permissions
        )
        return
    (role,) = re.findall(r"`(system:controller:[a-z-]+)`", section)
    rules = [
        rule
        for each in bootstrap_objects(registry())
        if each["kind"] in ("ClusterRole", "Role") and each["metadata"]["name"] == role
        for rule in each["rules"]
    ]
    assert sorted(_shown(section)) == sorted(
        (group, sorted(rule["resources"]), sorted(rule["verbs"]))
        for rule in rules
        for group in rule["apiGroups"]
    )


def _shown(section: str) -> list[tuple[str, list[str], list[str]]]:
    return [
        (
            "" if group == "core" else group.strip("`"),
            sorted(re.findall(r"`([^`]+)`", resources)),
            sorted(verbs.split(", ")),
        )
        for group, resources, verbs in rows(section)
    ]
