"""The scales of built-in and of custom resources, on the development cluster."""

import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import DAEMON_SETS, DEPLOYMENTS
from controller_manager.api.autoscaling.v1 import Scale, ScaleSpec, ScaleStatus
from controller_manager.client.discovery import resource_mapper
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.errors import Conflict, NotFound
from controller_manager.control.scales import NoScale, Scales
from tests.clusters import Cluster
from tests.controllers.builders import daemon_set_json, deployment_json
from tests.controllers.custom_resources import (
    DEFINITIONS,
    SCALABLE,
    WIDGETS,
    definition,
)
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


@pytest.fixture(name="user")
def make_user(cluster: Cluster) -> User:
    return User(cluster)


@pytest.fixture(name="mapper")
def make_mapper(cluster: Cluster) -> resource_mapper.ResourceMapper:
    return resource_mapper.ResourceMapper(cluster.client, cluster.clock)


@pytest.fixture(name="scales")
def make_scales(cluster: Cluster, mapper: resource_mapper.ResourceMapper) -> Scales:
    return Scales(cluster.client, mapper)


def _shown(scale: Scale) -> tuple[str, ScaleSpec, ScaleStatus]:
    return scale.metadata.name, scale.spec, scale.status


async def test_a_deployment_is_scaled(
    user: User, mapper: resource_mapper.ResourceMapper, scales: Scales
) -> None:
    """Its scale shows the selector of its pods."""
    await user.create(DEPLOYMENTS, deployment_json(replicas=3))
    resource = await mapper.resource_of("apps", "Deployment", "v1")
    scale = await scales.get(resource, "default", "web")
    assert _shown(scale) == (
        "web",
        ScaleSpec(replicas=3),
        ScaleStatus(selector="app=web"),
    )
    stored = await scales.update(resource, replace(scale, spec=ScaleSpec(replicas=5)))
    assert _shown(stored) == (
        "web",
        ScaleSpec(replicas=5),
        ScaleStatus(selector="app=web"),
    )
    assert (await user.deployment()).spec.replicas == 5
    with pytest.raises(Conflict):
        await scales.update(resource, scale)


async def test_a_custom_resource_is_scaled_where_its_definition_says(
    user: User, mapper: resource_mapper.ResourceMapper, scales: Scales
) -> None:
    await user.create(DEFINITIONS, definition(subresources=SCALABLE))
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 2, "colour": "red"},
    }
    await user.create(WIDGETS, body)
    status = {"status": {"size": 1, "selector": "app=w"}}
    await user.client.patch(WIDGETS, "default", "w", status, PatchType.MERGE, "status")
    resource = await mapper.resource_of("example.com", "Widget", "v1")
    scale = await scales.get(resource, "default", "w")
    assert _shown(scale) == (
        "w",
        ScaleSpec(replicas=2),
        ScaleStatus(replicas=1, selector="app=w"),
    )
    await scales.update(resource, replace(scale, spec=ScaleSpec(replicas=7)))
    stored = await user.client.get_json(WIDGETS, "default", "w")
    assert stored["spec"] == {"size": 7, "colour": "red"}


async def test_an_object_that_is_gone_differs_from_a_resource_without_scale(
    user: User, mapper: resource_mapper.ResourceMapper, scales: Scales
) -> None:
    """A daemon set has no scale, also if the object exists."""
    await user.create(DAEMON_SETS, daemon_set_json())
    deployments = await mapper.resource_of("apps", "Deployment")
    daemon_sets = await mapper.resource_of("apps", "DaemonSet")
    with pytest.raises(NotFound, match=r"\"gone\" not found"):
        await scales.get(deployments, "default", "gone")
    for name in ("agent", "gone"):
        with pytest.raises(NoScale) as refused:
            await scales.get(daemon_sets, "default", name)
        message = "daemonsets.apps does not implement the scale subresource"
        assert str(refused.value) == message
        assert isinstance(refused.value.__cause__, NotFound)


async def test_a_custom_resource_without_scale_differs_from_an_object_that_is_gone(
    user: User, mapper: resource_mapper.ResourceMapper, scales: Scales
) -> None:
    await user.create(DEFINITIONS, definition())
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    await user.create(WIDGETS, body)
    widgets = await mapper.resource_of("example.com", "Widget")
    with pytest.raises(NoScale) as refused:
        await scales.get(widgets, "default", "w")
    message = "widgets.example.com does not implement the scale subresource"
    assert str(refused.value) == message
    answer = 'widgets.example.com "w" not found'
    assert str(refused.value.__cause__) == answer


async def test_a_resource_that_never_had_a_scale_causes_no_discovery(
    mapper: resource_mapper.ResourceMapper, scales: Scales
) -> None:
    """Otherwise pods of daemon sets would cause discoveries for ever."""
    daemon_sets = await mapper.resource_of("apps", "DaemonSet")
    with pytest.raises(NoScale):
        await scales.get(daemon_sets, "default", "agent")
    known = await mapper.discovery(3600)
    await settle(resource_mapper.RETRY_INTERVAL)
    await mapper.resource_of("apps", "DaemonSet")
    assert await mapper.discovery(3600) is known


async def test_a_kind_that_is_not_served_any_more_is_noticed(
    user: User, mapper: resource_mapper.ResourceMapper, scales: Scales
) -> None:
    await user.create(DEFINITIONS, definition(subresources=SCALABLE))
    resource = await mapper.resource_of("example.com", "Widget")
    await user.client.delete(DEFINITIONS, "", "widgets.example.com")
    await settle(resource_mapper.RETRY_INTERVAL)
    with pytest.raises(NoScale):
        await scales.get(resource, "default", "w")
    with pytest.raises(resource_mapper.KindNotServed):
        await mapper.resource_of("example.com", "Widget")
