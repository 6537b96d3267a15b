"""A change of a config map changes the pod template of those that name it."""

import pytest
from e2_restart_on_config import CONTROLLER, hash_of
from msgspec.structs import replace

from controller_manager.sdk import apps_v1, core_v1
from controller_manager.testing import VirtualManager

pytestmark = pytest.mark.own_controllers(CONTROLLER)

NAMES = ("web", "other", "plain")


async def create(manager: VirtualManager, name: str, **annotations: str) -> None:
    """Create a deployment."""
    labels = {"app": name}
    named = {key.replace("_", "-"): value for key, value in annotations.items()}
    container = {"name": "main", "image": "nginx"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment = {
        "metadata": {
            "namespace": "default",
            "name": name,
            "annotations": {f"example.com/{key}": text for key, text in named.items()},
        },
        "spec": {"selector": {"matchLabels": labels}, "template": pods},
    }
    await manager.client.apply(apps_v1.DEPLOYMENTS, deployment)


async def configure(manager: VirtualManager, **data: str) -> str:
    """Write the config map; return its hash."""
    metadata = {"namespace": "default", "name": "settings"}
    config = {"metadata": metadata, "data": data}
    return hash_of(await manager.client.apply(core_v1.CONFIG_MAPS, config))


async def deployment(manager: VirtualManager, name: str) -> apps_v1.Deployment:
    return await manager.client.get(apps_v1.DEPLOYMENTS, "default", name)


async def test_the_users_of_a_config_map_are_restarted(manager: VirtualManager) -> None:
    """With one write each; the event says why."""
    await create(manager, "web", restart_on="settings")
    await create(manager, "other", restart_on="elsewhere")
    await create(manager, "plain")
    before, *others = [await deployment(manager, each) for each in NAMES]
    await configure(manager, colour="blue")
    await manager.settle()
    latest = await configure(manager, colour="red")
    await manager.settle()
    web, *same = [await deployment(manager, each) for each in NAMES]
    assert same == others
    annotations = {"example.com/config-hash": latest}
    template = before.spec.template
    pods = replace(template.metadata, annotations=annotations)
    spec = replace(before.spec, template=replace(template, metadata=pods))
    version = web.metadata.resource_version
    metadata = replace(before.metadata, generation=3, resource_version=version)
    assert web == replace(before, metadata=metadata, spec=spec)
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    assert manager.writes == [f"PATCH {path}"] * 2
    (event,) = (await manager.client.list_page(core_v1.EVENTS)).items
    assert (event.count, event.message) == (2, "The config map settings has changed")


async def test_a_config_map_that_is_the_same_restarts_nothing(
    manager: VirtualManager,
) -> None:
    """Nor does a label of it, nor a restart of this controller."""
    await create(manager, "web", restart_on="settings")
    await configure(manager, colour="blue")
    await manager.settle()
    before = await deployment(manager, "web")
    patch = {"metadata": {"labels": {"team": "web"}}}
    await manager.client.patch(core_v1.CONFIG_MAPS, "default", "settings", patch)
    await manager.settle()
    await manager.stop()
    await manager.settle()
    assert await deployment(manager, "web") == before
