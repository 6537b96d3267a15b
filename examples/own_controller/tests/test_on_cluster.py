"""The controller on a cluster in memory and on virtual time."""

from shared_config import CONTROLLER
from shared_config.metrics import SharedConfigMetrics

from controller_manager.sdk import (
    Client,
    CollectorRegistry,
    ObjectMeta,
    core_v1,
)
from controller_manager.testing import VirtualManager

NAME = "shared-config"


async def create(client: Client, namespace: str, **data: str) -> None:
    """Create the config map in a namespace, by server-side apply."""
    metadata = {"namespace": namespace, "name": NAME}
    config = {"metadata": metadata, "data": data}
    await client.apply(core_v1.CONFIG_MAPS, config)


async def add_namespace(client: Client, name: str) -> None:
    """Create a namespace."""
    namespace = core_v1.Namespace(metadata=ObjectMeta(name=name))
    await client.create(core_v1.NAMESPACES, namespace)


async def maps(client: Client) -> dict[str, core_v1.ConfigMap]:
    """Return the config maps by namespace."""
    page = await client.list_page(core_v1.CONFIG_MAPS)
    return {each.metadata.namespace: each for each in page.items}


async def data(client: Client) -> dict[str, dict[str, str] | None]:
    """Return their data by namespace."""
    return {name: each.data for name, each in (await maps(client)).items()}


SYSTEM = ("default", "kube-node-lease", "kube-public", "kube-system")
"""The namespaces that each cluster has."""


async def test_every_namespace_gets_a_copy(manager: VirtualManager) -> None:
    """Also one that comes later; without a source there is nothing to copy."""
    client = manager.client
    await manager.settle()
    assert await data(client) == {}
    await create(client, "kube-system", proxy="http://proxy:3128")
    await add_namespace(client, "late")
    await manager.settle()
    assert await data(client) == {
        name: {"proxy": "http://proxy:3128"} for name in (*SYSTEM, "late")
    }


async def test_a_copy_that_differs_is_repaired_and_keeps_its_labels(
    manager: VirtualManager,
) -> None:
    """It does so when the source has changed and when the copy has."""
    client = manager.client
    await create(client, "kube-system", a="1")
    await manager.settle()
    forged = {"metadata": {"labels": {"team": "web"}}, "data": {"a": "forged"}}
    await client.patch(core_v1.CONFIG_MAPS, "default", NAME, forged)
    await manager.settle()
    assert (await data(client))["default"] == {"a": "1"}
    await create(client, "kube-system", b="2")
    await manager.settle()
    copies = await maps(client)
    assert {name: each.data for name, each in copies.items()} == {
        name: {"b": "2"} for name in SYSTEM
    }
    assert copies["default"].metadata.labels == {
        "shared-config.example.com/copy": "true",
        "team": "web",
    }


async def test_a_config_map_of_somebody_else_is_left_alone_and_reported(
    manager: VirtualManager,
) -> None:
    """The event is about the namespace and says what to do."""
    await create(manager.client, "kube-system", a="1")
    await create(manager.client, "default", mine="yes")
    await manager.settle()
    assert (await data(manager.client))["default"] == {"mine": "yes"}
    (event,) = (await manager.client.list_page(core_v1.EVENTS)).items
    assert (event.type, event.reason) == ("Warning", "NameTaken")
    assert event.involved_object.name == "default"
    assert event.source.component == "shared-config-controller"
    assert event.message == (
        "The config map shared-config is no copy and is left alone; rename it, or give "
        "it the label shared-config.example.com/copy"
    )


async def test_the_flag_says_which_namespace_has_the_source(
    manager: VirtualManager,
) -> None:
    """The default, kube-system, then gets a copy."""
    await create(manager.client, "default", a="1")
    await manager.start("--shared-config-namespace=default")
    await manager.settle()
    assert await data(manager.client) == {name: {"a": "1"} for name in SYSTEM}


async def test_a_namespace_that_is_being_deleted_gets_no_copy(
    manager: VirtualManager,
) -> None:
    """Nor is it tried."""
    await add_namespace(manager.client, "shop")
    await manager.client.delete(core_v1.NAMESPACES, "", "shop")
    await create(manager.client, "kube-system", a="1")
    await manager.settle()
    assert set(await data(manager.client)) == {*SYSTEM}
    assert len(manager.writes) == len(SYSTEM) - 1


async def test_the_metrics_count_the_copies(manager: VirtualManager) -> None:
    """From the first scrape on, with every verb."""
    await create(manager.client, "kube-system", a="1")
    await manager.settle()
    (own,) = CONTROLLER.metrics
    shown = [each for each in manager.metrics().splitlines() if each.startswith(own)]
    assert shown == [f'{own}{{verb="create"}} 3.0', f'{own}{{verb="update"}} 0.0']


def test_the_descriptor_names_the_metrics_that_are_registered() -> None:
    """No more and no fewer."""
    registry = CollectorRegistry()
    SharedConfigMetrics(registry)
    registered = {f"{each.name}_total" for each in registry.collect()}
    assert registered == set(CONTROLLER.metrics)
