"""The authority is published in every namespace, and repaired."""

import asyncio
import io

import pytest

from controller_manager.api.core.v1 import CONFIG_MAPS, NAMESPACES
from controller_manager.api.json_objects import JSON
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import PatchType
from controller_manager.observability.logs import make_logger
from tests.clusters import ROOT_CA, make_config, run_manager
from tests.controllers.hands import Hands

pytestmark = pytest.mark.looptime


CONFIG = make_config(controllers=("root-ca-certificate-publisher-controller",))


async def test_only_published_authorities_are_watched(cluster: Hands) -> None:
    for number in range(50):
        cluster.add("ConfigMap", f"other-{number}", data={"k": "v" * 1000})
    connections = Connections(cluster.transport, root_ca="PEM")
    async with run_manager(connections, cluster.clock, cluster.rng, CONFIG) as manager:
        await asyncio.sleep(1)
        cached = {
            each.resource.plural: len(each.store) for each in manager.informers.all()
        }
    assert cached == {"namespaces": 2, "configmaps": 2}


async def test_every_active_namespace_has_the_authority(cluster: Hands) -> None:
    cluster.add_namespace("ending")
    cluster.remove(NAMESPACES, "ending")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        cluster.add_namespace("late")
        await asyncio.sleep(1)
        maps = (await cluster.client.list_page(CONFIG_MAPS)).items
    assert [(each.metadata.namespace, each.data) for each in maps] == [
        (namespace, {"ca.crt": ROOT_CA})
        for namespace in ("default", "kube-system", "late")
    ]
    assert [each.path for each in recording.writes if "/ending/" in each.path] == []


async def test_no_empty_authority_is_published_over_a_good_one(cluster: Hands) -> None:
    log = io.StringIO()
    settings = make_config(controllers=("root-ca-cert-publisher", "ttl"))
    connections = Connections(cluster.transport, root_ca="PEM")
    async with run_manager(connections, cluster.clock, cluster.rng, settings):
        await asyncio.sleep(1)
    unsaid = Connections(cluster.transport)
    logger = make_logger(stream=log)
    async with run_manager(unsaid, cluster.clock, cluster.rng, settings, logger):
        await asyncio.sleep(600)
        maps = (await cluster.client.list_page(CONFIG_MAPS)).items
    assert {each.data["ca.crt"] for each in maps if each.data} == {"PEM"}
    assert 'give="--root-ca-file, or a kubeconfig with a' in log.getvalue()


async def test_a_spoilt_authority_is_repaired(cluster: Hands) -> None:
    connections = Connections(cluster.transport, root_ca="PEM")
    where = (CONFIG_MAPS, "default", "kube-root-ca.crt")
    annotations = {"kubernetes.io/description": None, "mine": "2"}
    patches: list[JSON] = [
        {
            "metadata": {"labels": {"mine": "1"}, "annotations": annotations},
            "data": {"ca.crt": "FORGED", "more": "x"},
        },
        {"data": {"more": "x"}},
    ]
    async with run_manager(connections, cluster.clock, cluster.rng, CONFIG):
        await asyncio.sleep(1)
        described = (await cluster.client.get(*where)).metadata.annotations or {}
        for patch in patches:
            await cluster.client.patch(*where, patch, PatchType.MERGE)
            await asyncio.sleep(1)
            repaired = await cluster.client.get(*where)
            assert repaired.data == {"ca.crt": "PEM"}
            assert repaired.metadata.labels == {"mine": "1"}
            assert repaired.metadata.annotations == {**described, "mine": "2"}
        cluster.remove(CONFIG_MAPS, where[-1])
        await asyncio.sleep(1)
        assert (await cluster.client.get(*where)).data == {"ca.crt": "PEM"}
