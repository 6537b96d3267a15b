"""A controller may use kubernetes_asyncio, with the promises to every reconciler."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from kubernetes_asyncio import client
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import CONFIG_MAPS, NAMESPACES, PODS, Namespace
from controller_manager.api.meta import KubeObject
from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Transport
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.permissions import allow
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.registry import Registry
from controller_manager.runtime.watches import For, Maps
from tests.clusters import Cluster, make_config, manager_of, running_manager
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime


def namespace_of(_: object, obj: KubeObject) -> list[str]:
    return [obj.metadata.namespace]


class Census(Reconciler[Namespace]):
    """Writes the number of pods and the stage of each namespace into a config map."""

    synced: ClassVar[list[str]] = []
    watches = (
        For(NAMESPACES),
        Maps(PODS, namespace_of),
        Maps(CONFIG_MAPS, namespace_of),
    )

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.core: Any = client.CoreV1Api(context.api_client())

    async def reconcile(self, obj: Namespace) -> Outcome:
        name, labels = obj.metadata.name, obj.metadata.labels or {}
        self.synced.append(name)
        pods = await self.core.list_namespaced_pod(name)
        census = client.V1ConfigMap(
            metadata=client.V1ObjectMeta(name="census"),
            data={"pods": str(len(pods.items)), "stage": labels.get("stage", "-")},
        )
        try:
            await self.core.create_namespaced_config_map(name, census)
        except client.ApiException as error:
            if error.status != 409:
                raise
            await self.core.replace_namespaced_config_map("census", name, census)
        return DONE


CENSUS = Descriptor(
    name="census-controller",
    aliases=("census",),
    requires=(NAMESPACES, PODS, CONFIG_MAPS),
    load=f"{__name__}:Census",
    permissions=(allow(PODS, "list"), allow(CONFIG_MAPS, "create", "update")),
)


@asynccontextmanager
async def census(
    cluster: Cluster,
    transport: Transport | None = None,
    registry: CollectorRegistry | None = None,
) -> AsyncGenerator[None, None]:
    """Run a manager with this controller while entered."""
    Census.synced.clear()
    manager = manager_of(
        cluster,
        make_config(controllers=("census",)),
        Connections(transport or cluster.transport),
        build=Registry((CENSUS,)),
        registry=registry,
    )
    async with running_manager(manager):
        await asyncio.sleep(1)
        yield


async def counts(cluster: Cluster) -> dict[str, Any]:
    """Return the data of the config maps, by namespace."""
    page = await cluster.client.list_page(CONFIG_MAPS)
    return {each.metadata.namespace: each.data for each in page.items}


async def test_existing_code_runs_in_a_controller(cluster: Cluster) -> None:
    async with census(cluster):
        cluster.add("Pod", "a", spec={"containers": [{"name": "c", "image": "i"}]})
        await asyncio.sleep(1)
        found = await counts(cluster)
    assert found == {
        "default": {"pods": "1", "stage": "-"},
        "kube-system": {"pods": "0", "stage": "-"},
    }


async def test_a_write_by_an_api_client_is_awaited(cluster: Cluster) -> None:
    """Also through an ApiClient; so no sync acts on a stale cache."""
    watches = SilentWatches(cluster.transport)
    async with census(cluster, watches):
        watches.silence("configmaps")
        await cluster.client.patch(
            NAMESPACES, "", "default", {"metadata": {"labels": {"stage": "1"}}}
        )
        await asyncio.sleep(5)
        before = Census.synced.count("default")
        await cluster.client.patch(
            NAMESPACES, "", "default", {"metadata": {"labels": {"stage": "2"}}}
        )
        await asyncio.sleep(5)
        assert Census.synced.count("default") == before
        watches.speak("configmaps")
        await asyncio.sleep(5)
        assert Census.synced.count("default") > before


async def test_a_refusal_counts_as_one_of_the_client(cluster: Cluster) -> None:
    """Here a quota is full, which the owner of the namespace has to mend."""
    none = {"hard": {"configmaps": "0"}}
    cluster.add("ResourceQuota", "none", spec=none, status=none)
    registry = CollectorRegistry()
    async with census(cluster, registry=registry):
        await asyncio.sleep(60)
    outcomes = {
        sample.labels["outcome"]
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "controller_sync_duration_seconds_count" and sample.value
    }
    assert (outcomes, await counts(cluster)) == (
        {"success", "refused"},
        {"kube-system": {"pods": "0", "stage": "-"}},
    )
