"""Both operators give websites a deployment, an entry and a status, and clean up."""

from collections.abc import Sequence
from typing import Any

import e3_operator
import e4_operator_with_apply
import pytest
from e3_operator import WEBSITES, Website, WebsiteSpec, WebsiteStatus, deployment_of
from msgspec.structs import replace

from controller_manager.sdk import (
    Condition,
    Descriptor,
    NotFound,
    ObjectMeta,
    OwnerReference,
    apps_v1,
    core_v1,
)
from controller_manager.testing import VirtualManager
from tests.distributions import ROOT

DEFINITION = ROOT / "examples" / "websites.yaml"
SHOP = ("default", "shop")
ENTRY = ("kube-public", "default.shop")


@pytest.fixture(params=[e3_operator, e4_operator_with_apply], ids=lambda e: e.__name__)
def own_controllers(request: pytest.FixtureRequest) -> Sequence[Descriptor]:
    return (request.param.CONTROLLER,)


async def create(manager: VirtualManager) -> Website:
    """Create the definition and a website; return it once the operator has settled."""
    await manager.create_manifests(DEFINITION)
    metadata = ObjectMeta(namespace="default", name="shop")
    shop = Website(metadata=metadata, spec=WebsiteSpec(image="nginx", replicas=2))
    await manager.client.create(WEBSITES, shop)
    await manager.settle()
    return await manager.client.get(WEBSITES, *SHOP)


async def be_ready(manager: VirtualManager, count: int) -> None:
    """Let some pods of the deployment be ready, as its controller would say."""
    counts = {"replicas": 2, "readyReplicas": count}
    patch = {"status": counts}
    await manager.client.patch(apps_v1.DEPLOYMENTS, *SHOP, patch, subresource="status")


def condition(status: str, reason: str, ready: str, at: str, generation: int) -> Any:
    return Condition(
        type="Ready",
        status=status,
        reason=reason,
        message=f"{ready} pods are ready.",
        last_transition_time=at,
        observed_generation=generation,
    )


async def test_a_website_gets_a_deployment_an_entry_and_a_status(
    manager: VirtualManager,
) -> None:
    """The condition has a new time when its status changes, and not before."""
    shop = await create(manager)
    assert shop.metadata.finalizers == ("example.com/listed",)
    at = "2026-01-01T00:00:00Z"
    missing = condition("False", "PodsMissing", "0 of 2", at, 1)
    assert shop.status == WebsiteStatus(observed_generation=1, conditions=(missing,))
    deployment = await manager.client.get(apps_v1.DEPLOYMENTS, *SHOP)
    owner = OwnerReference(
        api_version="example.com/v1",
        kind="Website",
        name="shop",
        uid=shop.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    assert deployment.metadata.owner_references == (owner,)
    assert deployment.spec.replicas == 2
    await manager.client.get(core_v1.CONFIG_MAPS, *ENTRY)
    await be_ready(manager, 1)
    await manager.settle(60)
    shop = await manager.client.get(WEBSITES, *SHOP)
    some = replace(missing, message="1 of 2 pods are ready.")
    assert shop.status.conditions == (some,)
    await be_ready(manager, 2)
    await manager.settle()
    shop = await manager.client.get(WEBSITES, *SHOP)
    (ready,) = shop.status.conditions or ()
    later = ready.last_transition_time or ""
    assert later > at
    assert ready == condition("True", "AllReady", "2 of 2", later, 1)


async def test_a_change_of_the_spec_leaves_fields_of_others(
    manager: VirtualManager,
) -> None:
    await create(manager)
    paused = {"spec": {"paused": True}}
    await manager.client.patch(apps_v1.DEPLOYMENTS, *SHOP, paused)
    change = {"spec": {"replicas": 5}}
    await manager.client.patch(WEBSITES, *SHOP, change)
    await manager.settle()
    deployment = await manager.client.get(apps_v1.DEPLOYMENTS, *SHOP)
    assert (deployment.spec.replicas, deployment.spec.paused) == (5, True)
    shop = await manager.client.get(WEBSITES, *SHOP)
    assert shop.status.observed_generation == 2


async def test_a_deployment_that_is_deleted_comes_back(manager: VirtualManager) -> None:
    await create(manager)
    await manager.client.delete(apps_v1.DEPLOYMENTS, *SHOP)
    await manager.settle()
    await manager.client.get(apps_v1.DEPLOYMENTS, *SHOP)


async def test_a_deleted_website_goes_once_its_entry_is_gone(
    manager: VirtualManager,
) -> None:
    """It waits for the operator, which may be down for a while."""
    await create(manager)
    await manager.stop()
    await manager.client.delete(WEBSITES, *SHOP)
    await manager.client.get(WEBSITES, *SHOP)
    await manager.settle()
    with pytest.raises(NotFound):
        await manager.client.get(WEBSITES, *SHOP)
    with pytest.raises(NotFound):
        await manager.client.get(core_v1.CONFIG_MAPS, *ENTRY)


async def test_a_restart_writes_nothing(manager: VirtualManager) -> None:
    await create(manager)
    before = manager.writes
    await manager.stop()
    await manager.settle()
    assert manager.writes == before


async def test_the_deployment_of_somebody_else_is_left_alone(
    manager: VirtualManager,
) -> None:
    """The log says so; once it is gone, the website gets its own."""
    metadata = ObjectMeta(namespace="default", name="shop")
    other = Website(metadata=metadata, spec=WebsiteSpec(image="nginx"))
    wanted = deployment_of(other)
    del wanted["metadata"]["ownerReferences"]
    await manager.client.apply(apps_v1.DEPLOYMENTS, wanted)
    before = await manager.client.get(apps_v1.DEPLOYMENTS, *SHOP)
    await create(manager)
    assert await manager.client.get(apps_v1.DEPLOYMENTS, *SHOP) == before
    assert "the deployment shop is not of this website" in manager.log
    await manager.client.delete(apps_v1.DEPLOYMENTS, *SHOP)
    await manager.settle(60)
    deployment = await manager.client.get(apps_v1.DEPLOYMENTS, *SHOP)
    assert deployment.metadata.owner_references
