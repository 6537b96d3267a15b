"""Cluster-info is signed with every bootstrap token that may sign."""

import asyncio
from datetime import timedelta

import pytest

from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.client import PatchType
from controller_manager.controllers.identity.bootstrapsigner.controller import (
    detached_signature,
)
from tests.clusters import Cluster, make_config
from tests.controllers.identity.tokencleaner.builders import (
    TOKEN_SECRET,
    add_token,
    bootstrap_token,
)

pytestmark = pytest.mark.looptime

CONFIG = make_config(controllers=("bootstrapsigner",))
KEY = "jws-kubeconfig-"


def add_cluster_info(cluster: Cluster, namespace: str = "kube-public") -> None:
    cluster.add_namespace(namespace)
    kind = cluster.server.catalogue.find("", "v1", "configmaps")
    assert kind is not None
    found = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "one"}}
    cluster.server.objects.create(kind, namespace, found)


async def _data(cluster: Cluster, namespace: str = "kube-public") -> dict[str, str]:
    found = await cluster.client.get(CONFIG_MAPS, namespace, "cluster-info")
    return found.data or {}


async def test_signatures_follow_the_tokens_and_the_text(cluster: Cluster) -> None:
    """Anew when the text changes; each goes with its token, or its usage."""
    add_cluster_info(cluster)
    add_cluster_info(cluster, "other")
    async with cluster.manager(CONFIG) as recording:
        for token_id in ("abcdef", "ghijkl"):
            add_token(cluster, bootstrap_token(token_id))
        add_token(cluster, bootstrap_token("nosign", usage_bootstrap_signing="false"))
        add_token(cluster, bootstrap_token("elsewh"), "default")
        await asyncio.sleep(1)
        both = await _data(cluster)
        changed = {"data": {"kubeconfig": "two"}}
        await cluster.client.patch(
            CONFIG_MAPS, "kube-public", "cluster-info", changed, PatchType.MERGE
        )
        await asyncio.sleep(1)
        anew = await _data(cluster)
        await cluster.client.patch(
            SECRETS,
            "kube-system",
            "bootstrap-token-ghijkl",
            {"data": {"usage-bootstrap-signing": None}},
            PatchType.MERGE,
        )
        await asyncio.sleep(1)
        one = await _data(cluster)
        await cluster.client.delete(SECRETS, "kube-system", "bootstrap-token-abcdef")
        await asyncio.sleep(1)
        none = await _data(cluster)
        assert await _data(cluster, "other") == {"kubeconfig": "one"}
    first, second = (
        {
            f"{KEY}{each}": detached_signature(text, each, TOKEN_SECRET)
            for each in ("abcdef", "ghijkl")
        }
        for text in ("one", "two")
    )
    assert both == {"kubeconfig": "one", **first}
    assert anew == {"kubeconfig": "two", **second}
    assert one == {"kubeconfig": "two", f"{KEY}abcdef": second[f"{KEY}abcdef"]}
    assert none == {"kubeconfig": "two"}
    assert {(each.method, each.status) for each in recording.writes} == {("PUT", 200)}
    assert len(recording.writes) <= 5


async def test_a_signature_goes_when_its_token_expires(cluster: Cluster) -> None:
    """Also if the token is not deleted, and no other object changes."""
    add_cluster_info(cluster)
    soon = format_time(cluster.clock.now() + timedelta(seconds=30))
    add_token(cluster, bootstrap_token("soon01", soon))
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        assert f"{KEY}soon01" in await _data(cluster)
        await asyncio.sleep(31)
        assert await _data(cluster) == {"kubeconfig": "one"}


async def test_its_roles_are_enough() -> None:
    """It may update that one config map, and read secrets of kube-system."""
    cluster = Cluster(rbac=True)
    add_cluster_info(cluster)
    add_token(cluster, bootstrap_token("abcdef"))
    settings = make_config(
        controllers=("bootstrapsigner",), use_service_account_credentials=True
    )
    async with cluster.confined_manager(settings) as recording:
        await asyncio.sleep(1)
        assert f"{KEY}abcdef" in await _data(cluster)
    assert [each.status for each in recording.writes] == [200]
