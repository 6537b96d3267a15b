"""Feature gates are taken and refused as upstream does."""

import json
from pathlib import Path

import pytest

from controller_manager.options.gates import THIS_MINOR, FeatureGates, Gate, gate_values
from controller_manager.options.upstream_gates import DEPENDENCIES, known_gates
from controller_manager.registry import registry
from tests.cli.test_cli import config_of, problems, run

DATA = Path(__file__).parent.parent / "data"

BETA = {
    gate.name: False
    for gate in registry().gates
    if gate.stage == "BETA" and not gate.locked and gate.default
}
"""Every beta gate that is on by default, disabled."""

RISING = {
    gate.name: True
    for gate in registry().gates
    if gate.stage == "BETA" and not gate.locked and not gate.default
}
"""Every beta gate that is off by default, enabled."""

OF_FIFO = [gate.name for gate in registry().gates if "AtomicFIFO" in gate.depends_on]


def features(text: str) -> tuple[FeatureGates, tuple[str, ...]]:
    config = config_of({"feature-gates": [text]})
    return config.features, config.warnings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PodDeletionCost=false", FeatureGates({"PodDeletionCost": False})),
        ("kube:PodDeletionCost=false", FeatureGates({"PodDeletionCost": False})),
        ("PodDeletionCost=true", FeatureGates()),
        ("WatchListClient=false", FeatureGates({"WatchListClient": False})),
        (
            "DeploymentReplicaSetTerminatingReplicas=false",
            FeatureGates({"DeploymentReplicaSetTerminatingReplicas": False}),
        ),
        (
            "StaleControllerConsistencyReplicaSet=false",
            FeatureGates({"StaleControllerConsistencyReplicaSet": False}),
        ),
        (
            ",".join(f"{name}=false" for name in ["AtomicFIFO", *OF_FIFO]),
            FeatureGates(dict.fromkeys(["AtomicFIFO", *OF_FIFO], False)),
        ),
        ("AllBeta=false", FeatureGates(BETA)),
        (
            "WatchListClient=true,AllBeta=false,PodDeletionCost=true",
            FeatureGates(
                {
                    name: value
                    for name, value in BETA.items()
                    if name not in ("PodDeletionCost", "WatchListClient")
                }
            ),
        ),
        ("AllBeta=true", FeatureGates(RISING)),
        (
            "AllAlpha=true",
            FeatureGates(
                {gate.name: True for gate in registry().gates if gate.stage == "ALPHA"}
            ),
        ),
    ],
)
def test_a_gate_has_its_given_value(text: str, expected: FeatureGates) -> None:
    assert features(text) == (expected, ())


def test_a_gate_without_an_effect_here_is_a_warning() -> None:
    """It is taken, because upstream's arguments may name it."""
    assert features("WatchList=false,SidecarContainers=true") == (
        FeatureGates(),
        (
            (
                "--feature-gates: Setting GA feature gate SidecarContainers=true. It "
                "will be removed in a future release."
            ),
            "--feature-gates: WatchList has no effect in this build",
            "--feature-gates: SidecarContainers has no effect in this build",
        ),
    )


@pytest.mark.parametrize(
    "name", [gate.name for gate in registry().gates if gate.locked]
)
def test_a_locked_gate_has_one_value(name: str) -> None:
    assert features(f"{name}=true") == (
        FeatureGates(),
        (
            (
                f"--feature-gates: Setting GA feature gate {name}=true. It will be "
                "removed in a future release."
            ),
        ),
    )
    (problem,) = problems(f"--feature-gates={name}=false")
    assert problem == (
        f"--feature-gates: cannot set feature gate {name} to false, feature is locked "
        "to true"
    )


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        ("AtomicFIFO=false", OF_FIFO),
        *((f"AllBeta=false,{name}=true", [name]) for name in OF_FIFO),
    ],
)
def test_a_gate_needs_those_that_it_depends_on(text: str, enabled: list[str]) -> None:
    """Without AtomicFIFO upstream does not know how new a cache is."""
    assert problems(f"--feature-gates={text}") == sorted(
        f"--feature-gates: {name} is enabled, but depends on features that are "
        "disabled: [AtomicFIFO]"
        for name in enabled
    )


def test_resizing_pods_as_a_whole_is_disabled_with_their_resources() -> None:
    """Both have to be disabled, as upstream asks for."""
    both = "PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false"
    assert features(both) == (
        FeatureGates(
            {
                "PodLevelResources": False,
                "InPlacePodLevelResourcesVerticalScaling": False,
            }
        ),
        (),
    )


def test_the_defaults_of_all_gates_are_those_of_1_36() -> None:
    """As its help shows them; gates that have come of age are not in it."""
    shown = json.loads((DATA / "feature-gates.json").read_text())
    known = known_gates(THIS_MINOR)
    for stage, gates in shown.items():
        assert gates == {
            name: spec.default for name, spec in known.items() if spec.stage == stage
        }


@pytest.mark.parametrize("gate", registry().gates, ids=lambda gate: gate.name)
def test_each_declared_gate_is_as_upstream_has_it(gate: Gate) -> None:
    """A gate may leave out the dependencies that cannot be disabled."""
    spec = known_gates(THIS_MINOR)[gate.name]
    assert (gate.default, gate.locked) == (spec.default, spec.locked)
    assert gate.locked or gate.stage == spec.stage
    assert {*gate.depends_on} <= {*DEPENDENCIES.get(gate.name, ())}


@pytest.mark.parametrize("minor", [33, 34, 35, 36])
def test_the_defaults_of_each_version_fit_together(minor: int) -> None:
    config = config_of({"emulated-version": [f"1.{minor}"]})
    assert (config.emulated_version, config.warnings) == (f"1.{minor}", ())


def test_the_version_to_emulate_has_its_own_defaults() -> None:
    """A younger gate is off, and an alpha gate is no beta gate."""
    config = config_of(
        {"emulated-version": ["1.34"], "feature-gates": ["AllBeta=false"]}
    )
    gates = registry().gates
    enabled = {gate.name for gate in gates if config.features.is_enabled(gate)}
    assert enabled == {
        "DynamicResourceAllocation",
        "LogarithmicScaleDown",
        "OrderedNamespaceDeletion",
        "RecoverVolumeExpansionFailure",
        "VolumeAttributesClass",
    }
    taken = config_of({"emulated-version": ["1.35"]}).features
    assert {
        gate.name
        for gate in gates
        if gate.default != taken.is_enabled(gate) and gate.default
    } == {
        "AtomicFIFO",
        "ComponentFlagz",
        "ComponentStatusz",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAResourceClaimGranularStatusAuthorization",
        "InPlacePodLevelResourcesVerticalScaling",
        "MutableSchedulingDirectivesForSuspendedJobs",
        "StaleControllerConsistencyDaemonSet",
        "StaleControllerConsistencyJob",
        "StaleControllerConsistencyReplicaSet",
        "StaleControllerConsistencyStatefulSet",
    }


def test_a_gate_cannot_be_set_in_a_version_before_it() -> None:
    """In upstream's words."""
    assert problems("--emulated-version=1.35", "--feature-gates=AtomicFIFO=true") == [
        (
            "--feature-gates: cannot set feature gate AtomicFIFO to true, feature is "
            "PreAlpha at emulated version 1.35"
        )
    ]


def test_an_alpha_gate_of_an_emulated_version_is_a_warning() -> None:
    """Upstream does not test that."""
    config = config_of(
        {"emulated-version": ["1.35"], "feature-gates": ["HPAScaleToZero=true"]}
    )
    assert config.warnings == (
        (
            "--feature-gates: component has alpha features enabled in emulated "
            "version, this is unsupported: features=[HPAScaleToZero]"
        ),
    )


def test_the_help_names_every_gate() -> None:
    shown = " ".join(run("--help").output.split())
    assert "AllBeta=true|false (BETA - default=false)" in shown
    gates = registry().gates
    for gate in gates:
        default = str(gate.default).lower()
        position = f"{gate.name}=true|false ({gate.stage} - default={default})"
        assert (position in shown) is not gate.locked
    assert {gate.name for gate in gates if gate.locked} == {
        "DRAAdminAccess",
        "DynamicResourceAllocation",
        "LogarithmicScaleDown",
        "OrderedNamespaceDeletion",
        "PodObservedGenerationTracking",
        "RecoverVolumeExpansionFailure",
        "VolumeAttributesClass",
        "SELinuxChangePolicy",
        "SELinuxMountReadWriteOncePod",
    }


def values_of(flags: str, emulated: str = "1.36") -> dict[tuple[str, str], bool]:
    config = config_of({"feature-gates": [flags], "emulated-version": [emulated]})
    minor = int(emulated.partition(".")[2])
    return gate_values(registry().gates, config.features, config.given_gates, minor)


def test_metrics_show_every_gate_of_upstream_with_its_stage() -> None:
    known = known_gates(THIS_MINOR)
    assert values_of("") == {
        ("AllAlpha", "ALPHA"): False,
        ("AllBeta", "BETA"): False,
        **{
            (name, spec.stage.replace("GA", "")): spec.default
            for name, spec in known.items()
        },
    }


@pytest.mark.parametrize(
    ("flags", "emulated", "expected"),
    [
        (
            "WatchList=false,PodDeletionCost=false",
            "1.36",
            {
                ("WatchList", "BETA"): False,
                ("PodDeletionCost", "BETA"): False,
                ("SidecarContainers", ""): True,
            },
        ),
        (
            "AllAlpha=true,HPAScaleToZero=false,DRAListTypeAttributes=false",
            "1.36",
            {
                ("AllAlpha", "ALPHA"): True,
                ("HPAScaleToZero", "ALPHA"): False,
                ("DRAListTypeAttributes", "ALPHA"): False,
                ("EventedPLEG", "ALPHA"): True,
            },
        ),
        (
            "",
            "1.34",
            {("ComponentFlagz", "ALPHA"): False, ("SELinuxChangePolicy", "BETA"): True},
        ),
        ("ComponentFlagz=true", "1.34", {("ComponentFlagz", "ALPHA"): True}),
    ],
)
def test_metrics_show_a_gate_as_it_is_given_and_emulated(
    flags: str, emulated: str, expected: dict[tuple[str, str], bool]
) -> None:
    found = values_of(flags, emulated)
    assert {each: found.get(each) for each in expected} == expected


def test_metrics_leave_out_gates_that_are_younger_than_the_emulated_version() -> None:
    """As upstream: the version does not know them."""
    names = {name for name, _ in values_of("", "1.34")}
    assert "AtomicFIFO" not in names
    assert "AtomicFIFO" in {name for name, _ in values_of("")}
