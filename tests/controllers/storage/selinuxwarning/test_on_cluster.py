"""Pods are warned that share a volume, on a cluster in memory and virtual time."""

import asyncio
from typing import Any, Final

import pytest

from controller_manager.api.core.v1 import EVENTS, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.storage.v1 import CSI_DRIVERS
from controller_manager.client.builder import Connections
from controller_manager.options.config import Config
from tests.clusters import ROOT_CA, make_config, run_manager
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.storage.objects import DRIVER, Storage, ephemeral

pytestmark = pytest.mark.looptime

X: Final = "s0:c1,c2"
Y: Final = "s0:c98,c99"
TWICE = (
    "p Warning MultipleSELinuxLabels [selinux_warning]: "
    'Volume "data" is mounted twice with different SELinux labels inside this pod'
)


def config() -> Config:
    return make_config(
        controllers=("selinux-warning-controller",),
        use_service_account_credentials=True,
    )


class Labelled(Storage):
    """A cluster of pods with labels of SELinux."""

    def driver(self, name: str = DRIVER, *, mounts: bool = True) -> None:
        self.put(CSI_DRIVERS, name, spec={"seLinuxMount": mounts})

    def mounts(
        self,
        pod: str,
        level: str = "",
        policy: str = "",
        claim: str = "data",
        source: JSON | None = None,
        **options: str,
    ) -> None:
        """Add a pod that mounts a claim, with a label and a policy."""
        self.pod(pod, **_spec(level, policy, claim, source, **options))

    def mounts_own(self, pod: str, level: str) -> None:
        self.mounts(pod, level, source=ephemeral("data"))

    def mounts_twice(
        self, pod: str, kind: str = "containers", source: JSON | None = None
    ) -> None:
        """Add a pod whose other container has another label."""
        spec = _spec(X, source=source)
        second = {**spec["containers"][0], "name": "d"}
        second["securityContext"] = {"seLinuxOptions": {"level": Y}}
        spec[kind] = [*spec.get(kind, ()), second]
        self.pod(pod, **spec)

    def clear_events(self) -> None:
        for each in self.all(EVENTS):
            self.drop(EVENTS, each["metadata"]["name"])

    def warned(self) -> list[str]:
        """Return object, type and reason of all events."""
        return sorted({" ".join(each.split()[:3]) for each in self.told()})


def _spec(
    level: str = "",
    policy: str = "",
    claim: str = "data",
    source: JSON | None = None,
    **options: str,
) -> JSON:
    options |= {"level": level} if level else {}
    context: JSON = {"seLinuxOptions": options} if options else {}
    context |= {"seLinuxChangePolicy": policy} if policy else {}
    mounts = [{"name": "data", "mountPath": "/data"}]
    source = source or {"persistentVolumeClaim": {"claimName": claim}}
    return {
        "securityContext": context,
        "containers": [{"name": "c", "image": "app:v1", "volumeMounts": mounts}],
        "volumes": [{"name": "data", **source}],
    }


@pytest.fixture
async def cluster() -> Labelled:
    return Labelled()


@scenarios("storage/selinuxwarning")
async def test_pods_are_warned(scenario: Scenario) -> None:
    await scenario.play(Labelled, config)


async def test_it_does_not_run_by_default(cluster: Labelled) -> None:
    """As upstream's, it must be named in --controllers."""
    cluster.driver()
    cluster.bound()
    cluster.mounts("p", X)
    cluster.mounts("q", Y)
    async with cluster.manager(make_config(controllers=("*",))):
        await asyncio.sleep(1)
    sources = {each["source"]["component"] for each in cluster.all(EVENTS)}
    assert "selinux_warning" not in sources


SOURCES: Final[tuple[JSON | None, ...]] = (
    None,
    {"emptyDir": {}},
    {"configMap": {"name": "settings"}},
    {"secret": {"secretName": "keys"}},
    {"projected": {"sources": []}},
    {"hostPath": {"path": "/srv"}},
    {"nfs": {"server": "store", "path": "/"}},
    {"csi": {"driver": DRIVER}},
    {"fc": {"wwids": ["w"]}},
)


@pytest.mark.parametrize("source", SOURCES, ids=lambda it: next(iter(it or ["claim"])))
@pytest.mark.parametrize(
    "kind", ["containers", "initContainers", "ephemeralContainers"]
)
async def test_a_pod_is_told_of_two_labels_of_a_volume_of_any_kind(
    cluster: Labelled, source: JSON | None, kind: str
) -> None:
    """A volume that no other pod can have counts, too."""
    cluster.driver()
    cluster.bound()
    cluster.mounts_twice("p", kind, source)
    cluster.mounts("q", X, source=source)
    async with cluster.manager(config()):
        await asyncio.sleep(60)
    told = cluster.told(counted=True)
    others = [each for each in told if source is None and each[0] == "q"]
    assert [each for each in told if each not in others] == [f"{TWICE} x1"]


async def test_the_metric_has_each_conflict_twice(cluster: Labelled) -> None:
    cluster.driver()
    cluster.bound()
    cluster.mounts("p", X)
    cluster.mounts("q", Y)
    connections = Connections(cluster.transport, root_ca=ROOT_CA)
    async with run_manager(
        connections, cluster.clock, cluster.rng, config()
    ) as manager:
        await asyncio.sleep(1)
        x, y = ":::s0:c1,c2", ":::s0:c98,c99"
        assert samples(manager) == {
            ("SELinuxLabel", "default", "p", x, "default", "q", y): 1.0,
            ("SELinuxLabel", "default", "q", y, "default", "p", x): 1.0,
        }
        cluster.remove(PODS, "q")
        await asyncio.sleep(1)
        assert samples(manager) == {}


def samples(manager: Any) -> dict[tuple[str, ...], float]:
    name = "selinux_warning_controller_selinux_volume_conflict"
    return {
        tuple(each.labels.values()): each.value
        for family in manager._registry.collect()
        for each in family.samples
        if each.name == name
    }


async def test_a_pod_that_comes_back_is_told_again(cluster: Labelled) -> None:
    """The watch may show the deletion and the new pod together."""
    cluster.driver()
    cluster.bound()
    async with cluster.manager(config()):
        cluster.mounts("p", X)
        cluster.mounts("q", Y)
        await asyncio.sleep(1)
        cluster.drop(PODS, "p")
        cluster.mounts("p", X)  # in the same turn of the event loop
        await asyncio.sleep(1)
    present = {each["metadata"]["uid"] for each in cluster.all(PODS)}
    assert len(present) == 2
    assert {each["involvedObject"]["uid"] for each in cluster.all(EVENTS)} > present
