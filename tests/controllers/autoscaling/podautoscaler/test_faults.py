"""Autoscalers go on when requests fail, hang or come too late."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.controllers.autoscaling.podautoscaler import (
    AutoscalerOptions,
)
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    NAME,
    SYNC_PERIOD,
    TARGET,
    PodOf,
    Stage,
    config_of,
    cpu,
    external,
    of_pods,
    ready,
)
from tests.controllers.builders import template

pytestmark = pytest.mark.looptime


Fault = Callable[[Request], Awaitable[Response | None]]
"""Returns an answer that replaces the server's, or `None` for the server's own."""


@dataclass
class Faulty:
    """Passes requests on, unless a fault answers; records the requests."""

    inner: Transport
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[float, str, str]] = field(default_factory=list)
    host: str = "test"

    async def request(self, request: Request) -> Response:
        """Ask the faults first."""
        now = asyncio.get_running_loop().time()
        self.requests.append((now, request.method, request.path))
        for fault in self.faults:
            if (answer := await fault(request)) is not None:
                return answer
        return await self.inner.request(request)

    async def stream(self, request: Request) -> Stream:
        """Pass a watch on."""
        return await self.inner.stream(request)

    async def close(self) -> None:
        """Close the connections."""
        await self.inner.close()

    def times(self, method: str, end: str) -> list[float]:
        """Return when requests were sent, by method and end of path."""
        return [
            now
            for now, used, path in self.requests
            if used == method and path.endswith(end)
        ]


def refusal(code: int, reason: str, message: str) -> Response:
    """Return a Status."""
    body = {"status": "Failure", "reason": reason, "message": message, "code": code}
    return Response(code, {}, msgspec.json.encode(body))


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


async def test_an_autoscaler_is_synced_once_in_a_period(
    stage: Stage, transport: Faulty
) -> None:
    """Also the first time, and after its spec has changed, as upstream's."""
    async with stage.cluster.manager(config_of(), transport):
        stage.add_autoscaler([cpu(60)])
        await asyncio.sleep(SYNC_PERIOD * 1.5)
        stage.edit("HorizontalPodAutoscaler", NAME, metrics=[cpu(30)])
        await asyncio.sleep(SYNC_PERIOD * 2)
    reads = transport.times("GET", "/scale")
    assert [round(each / SYNC_PERIOD, 2) for each in reads] == [1, 2, 3]
    assert stage.replicas() == 6


async def test_an_autoscaler_with_nothing_to_do_writes_nothing(
    stage: Stage, transport: Faulty
) -> None:
    """Its status is written once."""
    stage.add_autoscaler([cpu(60)])
    async with stage.cluster.manager(config_of(), transport) as recording:
        await asyncio.sleep(SYNC_PERIOD * 10)
    assert [each.path.rpartition("/")[2] for each in recording.writes] == ["status"]


async def test_a_period_of_zero_lets_other_tasks_run(
    stage: Stage, transport: Faulty
) -> None:
    """Upstream's controller would sync without a pause."""
    options = AutoscalerOptions(sync_period=0.0)
    config = replace(config_of(), controllers={AutoscalerOptions: options})
    stage.add_autoscaler([cpu(60)])
    async with stage.cluster.manager(config, transport):
        await asyncio.sleep(1.05)
    assert len(transport.times("GET", "/scale")) == 10


async def test_the_first_pod_without_a_request_is_named() -> None:
    """It is always the same pod, so that the status is written once."""
    stage = Stage()
    stage.add_target(3)
    stage.add_pods((PodOf(cpu="1", request=None),) * 3)
    stage.add_autoscaler([cpu(60)])
    async with stage.cluster.manager(config_of()) as recording:
        await asyncio.sleep(SYNC_PERIOD * 5)
    assert stage.status()["conditions"][1]["message"] == (
        "the HPA was unable to compute the replica count: failed to get cpu "
        "utilization: missing request for cpu in container c of Pod test-pod-0"
    )
    assert len(recording.writes) == 1


async def test_a_scale_that_changed_meanwhile_is_set_again(
    stage: Stage, transport: Faulty
) -> None:
    """On its latest version, and at once (retry.RetryOnConflict)."""
    edits = iter([1, 2])

    async def edit(request: Request) -> Response | None:
        if request.method == "PUT" and request.path.endswith("/scale"):
            for seconds in edits:
                changed = {"minReadySeconds": seconds}
                stage.edit("ReplicationController", TARGET, **changed)
                break
        return None

    transport.faults.append(edit)
    stage.add_autoscaler([cpu(30)])
    async with stage.cluster.manager(config_of(), transport) as recording:
        await asyncio.sleep(SYNC_PERIOD * 1.5)
    sent = [each.status for each in recording.writes if each.path.endswith("/scale")]
    assert (sent, stage.replicas()) == ([409, 409, 200], 6)
    why = "cpu resource utilization (percentage of request) above target"
    event = f"Normal SuccessfulRescale: New size: 6; reason: {why}"
    assert stage.events() == [event]


async def test_a_number_that_another_client_has_set_meanwhile_stays(
    stage: Stage, transport: Faulty
) -> None:
    """Upstream overwrites it. A user who scales to zero disables the autoscaler."""
    edits = iter([0])

    async def edit(request: Request) -> Response | None:
        if request.method == "PUT" and request.path.endswith("/scale"):
            for replicas in edits:
                stage.edit("ReplicationController", TARGET, replicas=replicas)
        return None

    transport.faults.append(edit)
    stage.add_autoscaler([cpu(30)])
    async with stage.cluster.manager(config_of(), transport) as recording:
        await asyncio.sleep(SYNC_PERIOD * 1.5)
        (event,) = stage.events()
        await asyncio.sleep(SYNC_PERIOD * 5)
    sent = [each.status for each in recording.writes if each.path.endswith("/scale")]
    assert (sent, stage.replicas()) == ([409], 0)
    why = "cpu resource utilization (percentage of request) above target"
    failed = f"Warning FailedRescale: New size: 6; reason: {why}; error: Operation"
    assert event.startswith(f"{failed} cannot be fulfilled")
    assert stage.conditions()["ScalingActive"] == ("False", "ScalingDisabled")


@pytest.mark.parametrize("metric", [cpu(90), external(value="40"), of_pods("40")])
async def test_a_late_answer_is_computed_with_the_pods_of_its_time(
    stage: Stage, transport: Faulty, metric: JSON
) -> None:
    """As upstream: one idle pod asks for one replica, three idle pods for three."""
    stage.set_metrics(external={"qps": [{"value": "30"}]}, pods={"qps": {"*": "30"}})

    async def delay(request: Request) -> Response | None:
        if ".metrics.k8s.io/" in request.path or "/apis/metrics." in request.path:
            await asyncio.sleep(5)
        return None

    transport.faults.append(delay)
    stage.add_autoscaler([metric], 1, 10)
    async with stage.cluster.manager(config_of(), transport):
        await asyncio.sleep(SYNC_PERIOD + 2)
        for number in (0, 1):
            stage.delete("Pod", f"test-pod-{number}")
        await asyncio.sleep(12)
    assert stage.conditions()["AbleToScale"] == ("True", "ScaleDownStabilized")


async def test_a_scale_that_cannot_be_set_is_reported(
    stage: Stage, transport: Faulty
) -> None:
    """The next sync tries again; the desired number in the status stays."""

    async def refuse(request: Request) -> Response | None:
        if request.method == "PUT" and request.path.endswith("/scale"):
            return refusal(403, "Forbidden", "not you")
        return None

    transport.faults.append(refuse)
    stage.add_autoscaler([cpu(30)])
    async with stage.cluster.manager(config_of(), transport):
        await asyncio.sleep(SYNC_PERIOD * 2.5)
    assert len(transport.times("PUT", "/scale")) == 2
    status = stage.status()
    failed = {
        "type": "AbleToScale",
        "status": "False",
        "reason": "FailedUpdateScale",
        "message": "the HPA controller was unable to update the target scale: not you",
    }
    assert status["conditions"][0] == failed
    assert (status["currentReplicas"], status["desiredReplicas"]) == (3, 0)
    why = "cpu resource utilization (percentage of request) above target"
    event = f"Warning FailedRescale: New size: 6; reason: {why}; error: not you"
    assert stage.events() == [event]


async def test_a_status_that_cannot_be_written_is_reported(
    stage: Stage, transport: Faulty
) -> None:
    """By an event; the scale is set nevertheless."""

    async def refuse(request: Request) -> Response | None:
        if request.path.endswith("/status"):
            return refusal(500, "InternalError", "etcd is full")
        return None

    transport.faults.append(refuse)
    stage.add_autoscaler([cpu(30)])
    async with stage.cluster.manager(config_of(), transport):
        await asyncio.sleep(SYNC_PERIOD * 1.5)
    assert stage.replicas() == 6
    assert "Warning FailedUpdateStatus: etcd is full" in stage.events()


async def test_a_metrics_api_that_hangs_does_not_stop_autoscalers_of_other_apis(
    stage: Stage, transport: Faulty
) -> None:
    """Autoscalers that need another API are synced in time, for any number of others.

    Five requests at a time hang for half a minute. The other autoscalers wait in the
    queue until the first five have timed out; from then on their conditions say so,
    too.
    """

    async def hang(request: Request) -> Response | None:
        if "/external.metrics.k8s.io/" in request.path:
            await asyncio.sleep(3600)
        return None

    transport.faults.append(hang)
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


async def test_an_autoscaler_that_is_deleted_during_its_sync_leaves_no_history(
    stage: Stage, transport: Faulty
) -> None:
    """A new one of its name does not know the recommendations of the first one."""
    answer = asyncio.Event()

    async def wait(request: Request) -> Response | None:
        if "/metrics.k8s.io/" in request.path:
            await answer.wait()
        return None

    transport.faults.append(wait)
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
