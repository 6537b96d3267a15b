"""The feature gates are upstream's, and each alpha one that is missing has a row.

`feature-gates.txt` has all gates of Kubernetes 1.36. Its components share one list, so
most of them are for other components than the controller manager.
"""

from typing import Final

from controller_manager.registry import registry
from tests.documents.facts import ROOT
from tests.documents.markdown import Page, rows

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
