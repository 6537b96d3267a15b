"""Autoscalers go on when requests fail, hang or come too late."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.autoscaling.v2 import HORIZONTAL_POD_AUTOSCALERS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource
from controller_manager.client.rest.transport import Request, Response
from controller_manager.options.config import Config
from tests.clusters import WORKLOADS, Cluster, make_config
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.autoscaling.podautoscaler.cases import answers
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    NAME,
    SYNC_PERIOD,
    TARGET,
    Stage,
    config_of,
    cpu,
    external,
    of_object,
    ready,
)
from tests.controllers.builders import deployment_json, template
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.user import User
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime


class Playing(Stage):
    """A stage beside a cluster that plays a scenario."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster=cluster)

    def slow_metrics(self) -> None:
        """Let the server take five seconds for each answer about metrics."""
        handle = self.cluster.server.handle

        async def slow(request: Request) -> Any:
            if "metrics.k8s.io/" in request.path:
                await asyncio.sleep(5)
            return await handle(request)

        self.cluster.server.handle = slow  # type: ignore[method-assign]


@scenarios("autoscaling/podautoscaler")
async def test_autoscalers_on_a_cluster(scenario: Scenario) -> None:
    await scenario.play(Hands, config_of, Playing)


@dataclass
class Faulty(Meddler):
    """A meddler that records the requests."""

    requests: list[tuple[float, str, str]] = field(default_factory=list)

    async def request(self, request: Request) -> Response:
        now = asyncio.get_running_loop().time()
        self.requests.append((now, request.method, request.path))
        return await super().request(request)

    def times(self, method: str, end: str) -> list[float]:
        """Return when requests were sent, by method and end of path."""
        return [
            now
            for now, used, path in self.requests
            if used == method and path.endswith(end)
        ]


@pytest.fixture(name="stage")
async def make_stage() -> Stage:
    """Return a target of three pods whose usage is twice the wanted one."""
    stage = Stage()
    stage.add_target(3)
    stage.add_pods(ready("600m", "600m", "600m"))
    return stage


@pytest.fixture(name="transport")
def make_transport(stage: Stage) -> Faulty:
    return Faulty(stage.cluster.transport)


async def test_a_hanging_api_stops_no_other(stage: Stage, transport: Faulty) -> None:
    """Autoscalers that need another API are synced in time, for any number of others.

    Five requests at a time hang for half a minute. The other autoscalers wait in the
    queue until the first five have timed out; from then on their conditions say so,
    too.
    """

    async def hang(request: Request) -> Response | None:
        if "/external.metrics.k8s.io/" in request.path:
            await asyncio.sleep(3600)
        return None

    transport.meddle = hang
    for number in range(60):
        add_pair(stage, f"hanging-{number}", external(value="1"))
    add_pair(stage, "other", cpu(60))
    async with stage.cluster.manager(config_of(), transport):
        await asyncio.sleep(SYNC_PERIOD * 6.5)
    reads = transport.times("GET", "/other/scale")
    assert [each / SYNC_PERIOD for each in reads] == pytest.approx(
        [1, 2, 3, 4, 5, 6], abs=0.3
    )
    hanging = [path for _, _, path in transport.requests if "/external." in path]
    assert len(hanging) == 15
    reasons = {
        stage.conditions(f"hanging-{number}")["ScalingActive"] for number in range(60)
    }
    assert reasons == {("False", "FailedGetExternalMetric")}


def add_pair(stage: Stage, name: str, metric: JSON) -> None:
    """Create a target without pods, and its autoscaler."""
    kind = "ReplicationController"
    labels = {"app": name}
    spec = {"replicas": 1, "selector": labels, "template": template(**labels)}
    stage.cluster.add(kind, name, spec=spec, status={"replicas": 1})
    reference = {"apiVersion": "v1", "kind": kind, "name": name}
    stage.add_autoscaler([metric], name=name, more={"scaleTargetRef": reference})


async def test_a_deleted_one_has_no_history(stage: Stage, transport: Faulty) -> None:
    """A new one of its name does not know the recommendations of the first one."""
    answer = asyncio.Event()

    async def wait(request: Request) -> Response | None:
        if "/metrics.k8s.io/" in request.path:
            await answer.wait()
        return None

    transport.meddle = wait
    stage.add_autoscaler([cpu(30)])
    async with stage.cluster.manager(config_of(), transport):
        await asyncio.sleep(SYNC_PERIOD + 1)
        stage.delete("HorizontalPodAutoscaler", NAME)
        await asyncio.sleep(0.5)
        answer.set()
        await asyncio.sleep(0.5)
        assert stage.replicas() == 6
        stage.edit("ReplicationController", TARGET, replicas=3)
        stage.add_autoscaler([cpu(60)])
        await asyncio.sleep(SYNC_PERIOD + 1)
    assert stage.replicas() == 3
    assert stage.conditions()["AbleToScale"] == ("True", "ReadyForNewScale")


SCALER: Final = "scaler"

_SYNCS: Final = 8
"""The syncs for which a size is observed."""

METRICS: Final[dict[str, tuple[JSON, str]]] = {
    "external": (external(averageValue="10"), "external metric qps(nil)"),
    "object": (of_object(averageValue="10"), "Service metric qps"),
}
"""A metric, and its name in messages."""


def config() -> Config:
    names = ("horizontalpodautoscaling", *WORKLOADS, "statefulset-controller")
    generic = make_config(controllers=names).generic
    return replace(config_of(), generic=generic)


class Scaled(User):
    """A user of the workload web and its autoscaler."""

    def __init__(self, stage: Stage, resource: Resource[Any]) -> None:
        super().__init__(stage.cluster)
        self.stage = stage
        self.resource = resource

    async def autoscale(self, maximum: int, *metrics: JSON) -> None:
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
async def test_a_surge_keeps_its_size(kind: str, surge: int | str, load: str) -> None:
    """The surge is not written into the deployment, and nothing is recorded."""
    metric, name = METRICS[kind]
    stage = Stage()
    stage.set_metrics(**answers(kind, load))
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


async def test_the_metric_that_asks_for_more_counts_during_a_surge() -> None:
    """The other metric asks for the size of the deployment, not for its surge."""
    stage = Stage()
    stage.set_metrics(**answers("external", "100"), **answers("object", "120"))
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
    stage.set_metrics(**answers("external", "43"))
    user = Scaled(stage, STATEFUL_SETS)
    async with stage.cluster.nodes(), stage.cluster.manager(config()):
        obj = stateful_set_json(replicas=5, podManagementPolicy="Parallel")
        await user.create(STATEFUL_SETS, obj)
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
