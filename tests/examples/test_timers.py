"""Config maps live as long as their annotation says, and others for ever."""

import pytest
from e5_timers import CONTROLLER

from controller_manager.sdk import ObjectMeta, core_v1
from controller_manager.testing import VirtualManager

pytestmark = pytest.mark.own_controllers(CONTROLLER)

TTL = "example.com/ttl"


async def create(manager: VirtualManager, name: str, **annotations: str) -> None:
    """Create a config map."""
    named = {f"example.com/{key}": value for key, value in annotations.items()}
    metadata = ObjectMeta(namespace="default", name=name, annotations=named)
    await manager.client.create(
        core_v1.CONFIG_MAPS, core_v1.ConfigMap(metadata=metadata)
    )


async def left(manager: VirtualManager) -> list[str]:
    """Return the names of the config maps."""
    page = await manager.client.list_page(core_v1.CONFIG_MAPS)
    return [each.metadata.name for each in page.items]


async def test_a_config_map_goes_when_its_time_is_up(manager: VirtualManager) -> None:
    """Two hours take no time; those without the annotation stay."""
    await create(manager, "hour", ttl="3600")
    await create(manager, "two-hours", ttl="7200")
    await create(manager, "kept")
    await manager.settle(3590)
    assert await left(manager) == ["hour", "kept", "two-hours"]
    await manager.settle(20)
    assert await left(manager) == ["kept", "two-hours"]
    await manager.settle(3600)
    assert await left(manager) == ["kept"]


async def test_the_latest_annotation_counts_and_a_restart_does_no_harm(
    manager: VirtualManager,
) -> None:
    await create(manager, "notes", ttl="60")
    await manager.settle()
    longer = {"metadata": {"annotations": {TTL: "600"}}}
    await manager.client.patch(core_v1.CONFIG_MAPS, "default", "notes", longer)
    await manager.settle(300)
    await manager.stop()
    await manager.settle(200)
    assert await left(manager) == ["notes"]
    await manager.settle(100)
    assert await left(manager) == []
    path = "/api/v1/namespaces/default/configmaps/notes"
    assert manager.writes == [f"DELETE {path}"]


async def test_an_annotation_that_is_no_number_is_reported(
    manager: VirtualManager,
) -> None:
    await create(manager, "notes", ttl="soon")
    await manager.settle(3600)
    assert await left(manager) == ["notes"]
    (event,) = (await manager.client.list_page(core_v1.EVENTS)).items
    assert (event.type, event.reason) == ("Warning", "InvalidTTL")
    assert event.message == "example.com/ttl must be a number of seconds, it is 'soon'"
