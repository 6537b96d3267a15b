"""The controller on a cluster in memory and on virtual time."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from controller_manager.api.core.v1 import EVENTS

if TYPE_CHECKING:
    from conftest import Cluster

pytestmark = pytest.mark.looptime


async def test_every_namespace_gets_a_copy(cluster: "Cluster") -> None:
    """Also one that comes later; without a source there is nothing to copy."""
    async with cluster.manager():
        await asyncio.sleep(1)
        assert await cluster.data() == {}
        await cluster.create("kube-system", proxy="http://proxy:3128")
        await cluster.add_namespaces("late")
        await asyncio.sleep(1)
    assert await cluster.data() == {
        name: {"proxy": "http://proxy:3128"}
        for name in ("kube-system", "default", "shop", "late")
    }


async def test_a_copy_that_differs_is_repaired_and_keeps_its_labels(
    cluster: "Cluster",
) -> None:
    """It does so when the source has changed and when the copy has."""
    await cluster.create("kube-system", a="1")
    async with cluster.manager():
        await asyncio.sleep(1)
        labels = {"team": "web"}
        await cluster.change(
            "shop", {"metadata": {"labels": labels}, "data": {"a": "forged"}}
        )
        await asyncio.sleep(1)
        assert (await cluster.data())["shop"] == {"a": "1"}
        await cluster.change("kube-system", {"data": {"b": "2"}})
        await asyncio.sleep(1)
    copies = await cluster.maps()
    assert {name: each.data for name, each in copies.items()} == {
        name: {"a": "1", "b": "2"} for name in ("kube-system", "default", "shop")
    }
    assert copies["shop"].metadata.labels == {
        "shared-config.example.com/copy": "true",
        "team": "web",
    }


async def test_a_config_map_of_somebody_else_is_left_alone_and_reported(
    cluster: "Cluster",
) -> None:
    """The event is about the namespace and says what to do."""
    await cluster.create("kube-system", a="1")
    await cluster.create("shop", mine="yes")
    async with cluster.manager():
        await asyncio.sleep(1)
    assert (await cluster.data())["shop"] == {"mine": "yes"}
    (event,) = (await cluster.client.list_page(EVENTS)).items
    assert (event.type, event.reason) == ("Warning", "NameTaken")
    assert event.involved_object.name == "shop"
    assert event.source.component == "shared-config-controller"
    assert event.message == (
        "The config map shared-config is no copy and is left alone; rename it, or give "
        "it the label shared-config.example.com/copy"
    )


async def test_the_flag_says_which_namespace_has_the_source(
    cluster: "Cluster",
) -> None:
    """The default, kube-system, then gets a copy."""
    await cluster.create("shop", a="1")
    async with cluster.manager("--shared-config-namespace=shop"):
        await asyncio.sleep(1)
    assert await cluster.data() == {
        name: {"a": "1"} for name in ("kube-system", "default", "shop")
    }


async def test_a_namespace_that_is_being_deleted_gets_no_copy(
    cluster: "Cluster",
) -> None:
    """Nor is it tried."""
    await cluster.end_namespace("shop")
    await cluster.create("kube-system", a="1")
    async with cluster.manager() as manager:
        await asyncio.sleep(1)
        assert manager.is_idle
    assert set(await cluster.data()) == {"kube-system", "default"}
