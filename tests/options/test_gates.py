"""Feature gates are taken and refused as upstream does."""

import pytest

from controller_manager.options.gates import FeatureGates
from controller_manager.registry import registry
from tests.cli.test_cli import config_of, problems, run

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
    """Return the gates for a value of --feature-gates, and the warnings."""
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
def test_a_gate_has_the_value_that_it_is_given(
    text: str, expected: FeatureGates
) -> None:
    """AllBeta sets the gates that are not given themselves, in any order."""
    assert features(text) == (expected, ())


def test_gates_of_other_components_are_one_warning_each() -> None:
    """They are taken, because upstream's arguments may name them."""
    assert features("SidecarContainers=true,Unknown=true") == (
        FeatureGates(),
        (
            "--feature-gates: SidecarContainers has no effect in this build",
            "--feature-gates: Unknown has no effect in this build",
        ),
    )


@pytest.mark.parametrize(
    "name", [gate.name for gate in registry().gates if gate.locked]
)
def test_a_locked_gate_has_one_value(name: str) -> None:
    """The other value is refused, as component-base does."""
    assert features(f"{name}=true") == (FeatureGates(), ())
    (problem,) = problems(f"--feature-gates={name}=false")
    assert problem == (
        f"--feature-gates: cannot set {name} to false: Kubernetes 1.36 has locked it "
        "to true; leave it out"
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
    assert sorted(problems(f"--feature-gates={text}")) == sorted(
        f"--feature-gates: {name} is enabled, but depends on AtomicFIFO, which is "
        f"disabled; set {name}=false as well"
        for name in enabled
    )


def test_resizing_pods_as_a_whole_needs_their_resources() -> None:
    """So both have to be disabled, as upstream asks for."""
    (problem,) = problems("--feature-gates=PodLevelResources=false")
    assert problem == (
        "--feature-gates: InPlacePodLevelResourcesVerticalScaling is enabled, but "
        "depends on PodLevelResources, which is disabled; set "
        "InPlacePodLevelResourcesVerticalScaling=false as well"
    )
    both = "PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false"
    assert features(both)[1] == ()


def test_the_help_names_every_gate() -> None:
    """With its stage and default; locked gates are left out."""
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
