"""Autoscalers of a metric for each pod, while a workload has other pods than replicas.

Upstream: kubernetes#138505.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.autoscaling.v2 import HORIZONTAL_POD_AUTOSCALERS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.autoscaling.podautoscaler.case import object_has, outside_is
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    SYNC_PERIOD,
    Stage,
    config_of,
    cpu,
    external,
    of_object,
)
from tests.controllers.builders import deployment_json
from tests.controllers.user import User

pytestmark = pytest.mark.looptime

SCALER: Final = "scaler"

_SYNCS: Final = 8
"""The syncs for which a size is observed."""

METRICS: Final[dict[str, tuple[JSON, Callable[[str], JSON], str]]] = {
    "External": (
        external(averageValue="10"),
        outside_is,
        "external metric qps(nil)",
    ),
    "Object": (of_object(averageValue="10"), object_has, "Service metric qps"),
}
"""A metric, its answers, and its name in messages."""


def config() -> Config:
    """Return a config of autoscalers and the controllers of their targets."""
    names = (
        "horizontalpodautoscaling",
        "deployment-controller",
        "replicaset-controller",
        "statefulset-controller",
    )
    generic = make_config(controllers=names).generic
    return replace(config_of(), generic=generic)


class Scaled(User):
    """A user of the workload web and its autoscaler."""

    def __init__(self, stage: Stage, resource: Resource[Any]) -> None:
        super().__init__(stage.cluster)
        self.stage = stage
        self.resource = resource

    async def autoscale(self, maximum: int, *metrics: JSON) -> None:
        """Create the autoscaler."""
        kind = self.resource.kind
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": "web"}
        spec = {
            "scaleTargetRef": reference,
            "minReplicas": 2,
            "maxReplicas": maximum,
            "metrics": list(metrics),
        }
        autoscaler = {"metadata": {"name": SCALER}, "spec": spec}
        await self.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler)

    async def sizes(self) -> tuple[int | None, int]:
        """Return the replicas in spec and status of the workload."""
        found = await self.client.get(self.resource, "default", "web")
        return found.spec.replicas, found.status.replicas

    async def observed(self) -> set[tuple[int | None, int]]:
        """Return the sizes that the workload has during the next syncs."""
        found = set()
        for _ in range(_SYNCS):
            await asyncio.sleep(SYNC_PERIOD)
            found.add(await self.sizes())
        return found

    def rescaled(self) -> list[str]:
        """Return the events of the autoscaler."""
        return self.stage.events(SCALER)


async def surging(stage: Stage, surge: int | str) -> Scaled:
    """Return a deployment of ten whose new template never starts, and so surges."""
    user = Scaled(stage, DEPLOYMENTS)
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0}}
    await user.create(DEPLOYMENTS, deployment_json(replicas=10, strategy=strategy))
    await asyncio.sleep(3 * SYNC_PERIOD)
    assert await user.sizes() == (10, 10)
    await user.set_image("broken:v1")
    return user


@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize(
    ("surge", "load"), [(1, "100"), (1, "108"), ("30%", "105"), ("100%", "91")]
)
async def test_a_steady_load_leaves_the_size_of_a_deployment_that_surges(
    kind: str, surge: int | str, load: str
) -> None:
    """The surge is not written into the deployment, and nothing is recorded."""
    metric, answers, name = METRICS[kind]
    stage = Stage()
    stage.set_metrics(**answers(load))
    async with stage.cluster.nodes(), stage.cluster.manager(config()):
        user = await surging(stage, surge)
        await user.autoscale(20, metric)
        extra = int(str(surge).removesuffix("%")) // (1 if surge == 1 else 10)
        assert await user.observed() == {(10, 10 + extra)}
    status = stage.status(SCALER)
    assert (status["currentReplicas"], status["desiredReplicas"]) == (10, 10)
    assert stage.conditions(SCALER) == {
        "AbleToScale": ("True", "ReadyForNewScale"),
        "ScalingActive": ("True", "ValidMetricFound"),
        "ScalingLimited": ("False", "DesiredWithinRange"),
    }
    active = status["conditions"][1]["message"]
    assert active.endswith(f"calculate a replica count from {name}")
    assert user.rescaled() == []


async def test_a_surge_at_the_maximum_is_no_limit() -> None:
    """The condition ScalingLimited stays false."""
    stage = Stage()
    stage.set_metrics(**outside_is("100"))
    async with stage.cluster.nodes(), stage.cluster.manager(config()):
        user = await surging(stage, 1)
        await user.autoscale(10, external(averageValue="10"))
        assert await user.observed() == {(10, 11)}
    assert stage.conditions(SCALER)["ScalingLimited"] == ("False", "DesiredWithinRange")


@pytest.mark.parametrize("kind", METRICS)
async def test_a_higher_load_during_a_surge_is_followed(kind: str) -> None:
    """The event names the metric by its type."""
    metric, answers, name = METRICS[kind]
    stage = Stage()
    stage.set_metrics(**answers("140"))
    async with stage.cluster.nodes(), stage.cluster.manager(config()):
        user = await surging(stage, 1)
        await user.autoscale(20, metric)
        await user.observed()
        assert await user.sizes() == (14, 15)
    reason = f"reason: {name} above target"
    assert user.rescaled() == [f"Normal SuccessfulRescale: New size: 14; {reason}"]


async def test_the_metric_that_asks_for_more_counts_during_a_surge() -> None:
    """The other metric asks for the size of the deployment, not for its surge."""
    stage = Stage()
    stage.set_metrics(**outside_is("100"), **object_has("120"))
    metrics = (external(averageValue="10"), of_object(averageValue="10"))
    async with stage.cluster.nodes(), stage.cluster.manager(config()):
        user = await surging(stage, 1)
        await user.autoscale(20, *metrics)
        await user.observed()
        assert await user.sizes() == (12, 13)
    reason = "reason: Service metric qps above target"
    assert user.rescaled() == [f"Normal SuccessfulRescale: New size: 12; {reason}"]


async def test_pods_of_a_stateful_set_that_terminate_slowly_are_not_kept() -> None:
    """A user lowers the size; the pods above it count until they are gone."""
    stage = Stage()
    stage.set_metrics(**outside_is("43"))
    user = Scaled(stage, STATEFUL_SETS)
    async with stage.cluster.nodes(), stage.cluster.manager(config()):
        await user.create(
            STATEFUL_SETS,
            stateful_set_json(replicas=5, podManagementPolicy="Parallel"),
        )
        await asyncio.sleep(3 * SYNC_PERIOD)
        for pod in await user.pods():
            patch = {"metadata": {"finalizers": ["example.com/slow"]}}
            await user.patch(PODS, pod.metadata.name, patch)
        await user.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 4}})
        await user.autoscale(20, external(averageValue="10"))
        assert await user.observed() == {(4, 5)}
    assert user.rescaled() == []


async def test_a_surge_changes_nothing_for_a_metric_of_the_pods() -> None:
    """As upstream: the size stays within the tolerance."""
    stage = Stage()
    deployment = deployment_json(
        replicas=4, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "100m"}}
    deployment["metadata"]["annotations"] = {"devcluster/cpu": "50m"}
    user = Scaled(stage, DEPLOYMENTS)
    async with stage.cluster.nodes(), stage.cluster.manager(config()):
        await user.create(DEPLOYMENTS, deployment)
        await asyncio.sleep(12 * SYNC_PERIOD)
        container["image"] = "broken:v1"
        spec = {"template": {"spec": {"containers": [container]}}}
        await user.patch(DEPLOYMENTS, "web", {"spec": spec})
        await user.autoscale(20, cpu(50))
        assert await user.observed() == {(4, 5)}
    assert user.rescaled() == []
