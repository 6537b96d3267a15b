"""Faults around autoscalers, each played on purpose."""

import asyncio
import json
from dataclasses import dataclass
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.devcluster.metrics.answers import CONFIG_MAP, KEY
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    cpu,
    external,
)
from tests.controllers.builders import deployment_json
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_LOAD: Final = "devcluster/cpu"
_PERIOD: Final = 15.0
"""Seconds between two syncs of an autoscaler."""

_WINDOW: Final = 300.0
"""Seconds for which a recommendation holds back a scaling down."""

_HANGING: Final = "/apis/external.metrics.k8s.io/v1beta1/"


@dataclass
class _HangingMetrics:
    """A connection on which the API of external metrics never answers."""

    inner: Transport

    @property
    def host(self) -> str:
        return self.inner.host

    async def request(self, request: Request) -> Response:
        if request.path.startswith(_HANGING):
            await asyncio.Event().wait()
        return await self.inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


async def metrics_api_hangs(environment: Environment) -> None:
    """kubernetes#96242: an adapter of external metrics answers slowly, or never.

    Upstream has five workers; ten autoscalers of such a metric occupy them for as long
    as a request lasts, and every other autoscaler waits. Here each metrics API has a
    part of the requests, and the others go on.
    """
    connection = environment.manager.connection
    connection.inner = _HangingMetrics(connection.inner)
    for number in range(10):
        name = f"queue-{number}"
        _create(environment, name, load="0")
        _autoscale(environment, name, external("jobs", averageValue="1"))
    _create(environment, "web", load="total:600m")
    _autoscale(environment, "web", cpu(50))
    await environment.until(lambda: _replicas(environment, "web") == 8, 6 * _PERIOD)
    await asyncio.sleep(_WINDOW)
    _set_load(environment, "web", "total:200m")
    within = _WINDOW + 2 * _PERIOD
    await environment.until(lambda: _replicas(environment, "web") == 4, within)


async def two_autoscalers_over_one_target(environment: Environment) -> None:
    """kubernetes#112027: two autoscalers that select the same pods fight.

    As upstream today: neither scales anything until the other one is gone.
    """
    _create(environment, "web", load="total:300m")
    _autoscale(environment, "web", cpu(50))
    await environment.until(lambda: _replicas(environment, "web") == 6, 6 * _PERIOD)
    _autoscale(environment, "web", cpu(20), name="second")
    await asyncio.sleep(2 * _PERIOD)
    _set_load(environment, "web", "total:400m")
    await asyncio.sleep(20 * _PERIOD)
    assert _replicas(environment, "web") == 6
    second = environment.world.find("horizontalpodautoscalers", NAMESPACE, "second")
    assert second is not None
    environment.world.delete("horizontalpodautoscalers", second)
    await environment.until(lambda: _replicas(environment, "web") == 8, 2 * _PERIOD)


async def restart_after_a_peak(environment: Environment) -> None:
    """No upstream issue: a manager starts while the load is low for a moment.

    As upstream: the number of replicas that it finds counts as a recommendation. So it
    does not scale down before it has seen the load for the whole window.
    """
    _create(environment, "web", load="total:400m")
    _autoscale(environment, "web", cpu(50))
    await environment.until(lambda: _replicas(environment, "web") == 8, 6 * _PERIOD)
    await asyncio.sleep(60)
    _set_load(environment, "web", "0")
    environment.manager.crash()
    await asyncio.sleep(_WINDOW - 2 * _PERIOD)
    assert _replicas(environment, "web") == 8
    await environment.until(lambda: _replicas(environment, "web") == 1, 6 * _PERIOD)


async def metrics_vanish(environment: Environment) -> None:
    """No upstream issue: the metrics server is gone while the load is high.

    As upstream: a pod without metrics is not idle. Nothing is scaled down, and the
    condition has the reason.
    """
    _create(environment, "web", load="total:400m")
    _autoscale(environment, "web", cpu(50))
    await environment.until(lambda: _replicas(environment, "web") == 8, 6 * _PERIOD)
    kind = environment.world.kind("configmaps")
    answers = {"metadata": {"name": CONFIG_MAP}, "data": {KEY: '{"fail": 503}'}}
    stored = environment.world.server.objects.create(kind, NAMESPACE, answers)
    await asyncio.sleep(2 * _WINDOW)
    assert _replicas(environment, "web") == 8
    assert _condition(environment, "ScalingActive") == (
        "False",
        "FailedGetResourceMetric",
    )
    nothing = {KEY: json.dumps({"resource": {}})}
    environment.world.change(
        "configmaps", stored.obj, lambda obj: obj.update(data=nothing)
    )
    await asyncio.sleep(2 * _WINDOW)
    assert _replicas(environment, "web") == 8


async def one_metric_of_two_is_missing(environment: Environment) -> None:
    """kubernetes#99394: one metric asks for fewer replicas, the other is not there.

    As upstream today, and as documented: nothing is scaled down; the metric that is
    there may still ask for more.
    """
    _create(environment, "web", load="total:200m")
    _autoscale(environment, "web", cpu(50), external("jobs", averageValue="1"))
    await environment.until(lambda: _replicas(environment, "web") == 4, 6 * _PERIOD)
    _set_load(environment, "web", "0")
    await asyncio.sleep(2 * _WINDOW)
    assert _replicas(environment, "web") == 4
    assert _condition(environment, "ScalingActive") == (
        "False",
        "FailedGetExternalMetric",
    )
    _set_load(environment, "web", "total:400m")
    await environment.until(lambda: _replicas(environment, "web") == 8, 2 * _PERIOD)


async def target_at_zero(environment: Environment) -> None:
    """No upstream issue: a user scales the target of an autoscaler to zero.

    As documented: the autoscaler is disabled, and goes on when there are replicas.
    """
    _create(environment, "web", load="total:400m")
    _autoscale(environment, "web", cpu(50))
    await environment.until(lambda: _replicas(environment, "web") == 8, 6 * _PERIOD)
    environment.edit("web", replicas=0)
    await asyncio.sleep(20 * _PERIOD)
    assert _replicas(environment, "web") == 0
    assert _condition(environment, "ScalingActive") == ("False", "ScalingDisabled")
    environment.edit("web", replicas=1)
    await environment.until(lambda: _replicas(environment, "web") == 8, 6 * _PERIOD)


def _create(environment: Environment, name: str, load: str) -> None:
    """Create a deployment of one replica that requests 100m, and its load."""
    deployment = deployment_json(name, 1)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "100m"}}
    deployment["metadata"]["annotations"] = {_LOAD: load}
    kind = environment.world.kind("deployments")
    environment.world.server.objects.create(kind, NAMESPACE, deployment)


def _autoscale(
    environment: Environment, target: str, *metrics: JSON, name: str = ""
) -> None:
    """Create an autoscaler between one and eight replicas."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    spec = {
        "scaleTargetRef": reference,
        "minReplicas": 1,
        "maxReplicas": 8,
        "metrics": list(metrics),
    }
    autoscaler = {"metadata": {"name": name or target}, "spec": spec}
    kind = environment.world.kind("horizontalpodautoscalers")
    environment.world.server.objects.create(kind, NAMESPACE, autoscaler)


def _set_load(environment: Environment, name: str, load: str) -> None:
    def edit(obj: JSON) -> None:
        obj["metadata"]["annotations"][_LOAD] = load

    environment.world.change("deployments", environment.get(name), edit)


def _replicas(environment: Environment, name: str) -> int:
    return int(environment.get(name)["spec"]["replicas"])


def _condition(environment: Environment, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition of the autoscaler of web."""
    found = environment.world.find("horizontalpodautoscalers", NAMESPACE, "web")
    assert found is not None
    for each in found["status"].get("conditions", []):
        if each["type"] == kind:
            return each["status"], each["reason"]
    return "", ""


SCENARIOS: Final[tuple[Scenario, ...]] = (
    metrics_api_hangs,
    two_autoscalers_over_one_target,
    restart_after_a_peak,
    metrics_vanish,
    one_metric_of_two_is_missing,
    target_at_zero,
)
