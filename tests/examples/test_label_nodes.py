"""Cordoned nodes are labelled, and no other node is touched."""

import pytest
from e1_label_nodes import CONTROLLER
from msgspec.structs import replace

from controller_manager.sdk import core_v1
from controller_manager.testing import VirtualManager

pytestmark = pytest.mark.own_controllers(CONTROLLER)


async def nodes(manager: VirtualManager) -> list[core_v1.Node]:
    """Return all nodes, without their versions."""
    found = (await manager.client.list_page(core_v1.NODES)).items
    return [
        replace(each, metadata=replace(each.metadata, resource_version=""))
        for each in found
    ]


async def cordon(manager: VirtualManager, name: str, *, on: bool) -> None:
    """Create a node, or change it."""
    node = {"metadata": {"name": name}, "spec": {"unschedulable": on}}
    await manager.client.apply(core_v1.NODES, node)


async def test_only_cordoned_nodes_have_the_label(manager: VirtualManager) -> None:
    await cordon(manager, "a", on=True)
    await cordon(manager, "b", on=False)
    a, b = await nodes(manager)
    labels = {**(a.metadata.labels or {}), "example.com/cordoned": "true"}
    await manager.settle()
    labelled = replace(a, metadata=replace(a.metadata, labels=labels))
    assert await nodes(manager) == [labelled, b]
    await cordon(manager, "a", on=False)
    await manager.settle()
    free = replace(a, spec=replace(a.spec, unschedulable=False))
    assert await nodes(manager) == [free, b]
    assert manager.writes == ["PATCH /api/v1/nodes/a"] * 2
