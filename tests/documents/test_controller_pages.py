"""Tables, messages and names on the pages are those of the program."""

import re
import tomllib
from typing import Final

import pytest

from controller_manager.devcluster.controlplane import bootstrap_objects
from controller_manager.registry import registry
from controller_manager.version import VERSION
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


OF_OTHERS: Final = {
    "API server": """
        APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
        CrossNamespaceVolumeDataSource DRAListTypeAttributes ImageVolumeWithDigest
        ManifestBasedAdmissionControlConfig MutablePVNodeAffinity ShardedListAndWatch
    """,
    "kubelet": """
        CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth
        ContainerStopSignals EventedPLEG InPlacePodVerticalScalingExclusiveCPUs
        InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace MemoryQoS
        PodAndContainerStatsFromCRI PodLevelResourceManagers PodLogsQuerySplitStreams
        PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
        TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
        WindowsCPUAndMemoryAffinity
    """,
    "scheduler": """
        DRANodeAllocatableResources GangScheduling StorageCapacityScoring
        TopologyAwareWorkloadScheduling VolumeLimitScaling WorkloadAwarePreemption
    """,
    "cloud controller manager": """
        CloudControllerManagerWatchBasedRoutesReconciliation
        CloudControllerManagerWebhook
    """,
}
"""Alpha gates that the controller manager does not look at, by who does."""


def upstreams() -> dict[str, tuple[str, str]]:
    """Return stage and default of the gates of all components, by their names."""
    text = (ROOT / "tests" / "data" / "feature-gates.txt").read_text()
    lines = (each.split() for each in text.splitlines() if not each.startswith("#"))
    return {name: (stage, default) for name, stage, default in lines}


def test_a_gate_has_the_stage_and_the_default_of_upstream() -> None:
    """Locked ones are not in upstream's list."""
    ours = {
        gate.name: (gate.stage, str(gate.default).lower())
        for gate in registry().gates
        if not gate.locked
    }
    assert ours.items() <= upstreams().items()


def test_an_alpha_gate_without_an_effect_here_has_a_row() -> None:
    """Unless only other components look at it; one that has an effect has none."""
    alpha = {name for name, (stage, _) in upstreams().items() if stage == "ALPHA"}
    others = {name for names in OF_OTHERS.values() for name in names.split()}
    ours = {gate.name for gate in registry().gates}
    page = Page.at(ROOT / "docs" / "differences.md")
    shown = [cells[0].strip("`") for cells in rows(page.section("Alpha feature gates"))]
    assert others <= alpha
    assert others & ours == set()
    assert sorted(shown) == sorted(alpha - others - ours - {"AllAlpha"})


def test_the_table_of_areas_names_every_controller_once() -> None:
    text = (ROOT / "docs/controllers/README.md").read_text()
    linked = re.findall(r"\[([a-z-]+)\]\((\S+)\.md\)", text.split("\n## ")[0])
    assert sorted(f"{name}-controller" for name, _ in linked) == sorted(
        registry().names
    )
    assert all(f"{name}-controller" == page for name, page in linked)


def test_every_feature_gate_is_explained_with_its_default() -> None:
    """Locked gates are not in the table: no flag can set them."""
    page = Page.at(ROOT / "docs" / "reference.md")
    shown = {
        cells[0].strip("`"): cells[1]
        for cells in rows(page.section("Feature gates"))
        if not cells[0].startswith("`All")
    }
    assert shown == {
        gate.name: str(gate.default).lower()
        for gate in registry().gates
        if not gate.locked
    }


def test_the_messages_on_the_page_for_troubles_are_those_of_the_program() -> None:
    """They stand in quotation marks; a longer text of the program may contain them."""
    page = Page.at(ROOT / "docs" / "troubleshooting.md")
    shown = {span.strip('"') for span in page.spans if span.startswith('"')}
    assert len(shown) > 10
    assert {
        text for text in shown if not any(text in each for each in strings())
    } == set()


DIRECTORY = ROOT / ".changes"
CHANGES = {
    str(path.relative_to(DIRECTORY)): path.read_text().strip()
    for path in sorted(DIRECTORY.rglob("*"))
    if path.is_file() and path != DIRECTORY / "README.md"
}


def declared(what: str, key: str) -> str:
    """Return a pattern of the parts or types that the changelog has headings for."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found = tomllib.load(file)["tool"]["towncrier"][what]
    return "|".join(str(item[key]) for item in found)


def test_a_change_has_a_part_a_name_a_type_and_a_text() -> None:
    parts, types = declared("section", "path"), declared("type", "directory")
    pattern = re.compile(rf"({parts})/\+[a-z0-9-]+\.({types})\.md")
    right = {name for name, text in CHANGES.items() if text and pattern.fullmatch(name)}
    assert CHANGES.keys() - right == set(), "must be PART/+NAME.TYPE.md, with a text"


def test_a_version_that_is_released_gets_no_further_changes() -> None:
    """After a release, the first change raises the version."""
    text = (ROOT / "CHANGELOG.md").read_text()
    released = re.findall(r"^## (\S+) \(\d{4}-\d{2}-\d{2}\)$", text, re.MULTILINE)
    assert "0.2.0" in released
    assert VERSION not in released or not CHANGES
