"""Metrics are read as upstream's clients read them, and errors are worded so."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
import pytest

from controller_manager.api.autoscaling.v2 import (
    CrossVersionObjectReference,
    MetricSpec,
)
from controller_manager.api.json_objects import JSON
from controller_manager.client.discovery.resource_mapper import ResourceMapper
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.transport import Query, Request, Response, Stream
from controller_manager.clock import LoopClock
from controller_manager.controllers.autoscaling.podautoscaler import metrics_api
from controller_manager.controllers.autoscaling.podautoscaler.metrics_client import (
    MetricsClient,
)
from controller_manager.controllers.autoscaling.podautoscaler.pods import (
    ComputationError,
    PodMetric,
)
from tests.clusters import EPOCH

pytestmark = pytest.mark.looptime


SYNC_PERIOD: Final = 15.0

RESOURCE: Final = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
CUSTOM: Final = "/apis/custom.metrics.k8s.io"
OF_PODS: Final = f"{CUSTOM}/v1beta2/namespaces/default/pods/*/hits"
EXTERNAL: Final = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue"

MEASURED: Final = "2026-01-01T10:00:00Z"
AT: Final = datetime(2026, 1, 1, 10, tzinfo=UTC)

SERVICE: Final = CrossVersionObjectReference(kind="Service", name="web")


@dataclass
class Scripted:
    """Answers by path, and records the requests.

    A path without an answer gets the plain text of a real API server. A path in
    `hanging` gets no answer until the test sets its event.
    """

    answers: dict[str, Response] = field(default_factory=dict)
    asked: list[tuple[str, Query]] = field(default_factory=list)
    hanging: dict[str, asyncio.Event] = field(default_factory=dict)
    host: str = "test"

    def put(self, path: str, body: JSON, status: int = 200) -> None:
        self.answers[path] = Response(status, {}, msgspec.json.encode(body))

    def put_text(self, path: str, text: str, status: int) -> None:
        self.answers[path] = Response(status, {}, text.encode())

    async def request(self, request: Request) -> Response:
        self.asked.append((request.path, request.query))
        if (event := self.hanging.get(request.path)) is not None:
            await event.wait()
        unknown = Response(404, {}, b"404 page not found\n")
        return self.answers.get(request.path, unknown)

    async def stream(self, request: Request) -> Stream:
        raise AssertionError(request)

    async def close(self) -> None:
        raise AssertionError


@pytest.fixture(name="server")
def make_server() -> Scripted:
    server = Scripted()
    server.put(CUSTOM, group("v1beta2", "v1beta2", "v1beta1"))
    server.put("/api", {"versions": ["v1"]})
    server.put("/apis", {"groups": []})
    served = {"name": "services", "kind": "Service", "namespaced": True, "verbs": []}
    server.put("/api/v1", {"resources": [served]})
    return server


@pytest.fixture(name="sources")
def make_sources(server: Scripted) -> MetricsClient:
    clock = LoopClock(EPOCH)
    client = Client(server, clock)
    mapper = ResourceMapper(client, clock)
    return MetricsClient(client, clock, mapper, concurrency=2, sync_period=SYNC_PERIOD)


def group(preferred: str, *versions: str) -> JSON:
    return {
        "preferredVersion": {"version": preferred},
        "versions": [{"version": each} for each in versions],
    }


def usage(name: str, *containers: tuple[str, JSON], window: str = "30s") -> JSON:
    return {
        "metadata": {"name": name},
        "timestamp": MEASURED,
        "window": window,
        "containers": [{"name": each, "usage": used} for each, used in containers],
    }


def value(name: str, amount: str, **window: int) -> JSON:
    return {
        "describedObject": {"name": name},
        "timestamp": MEASURED,
        "value": amount,
        **window,
    }


async def test_containers_are_added(server: Scripted, sources: MetricsClient) -> None:
    """A pod without containers, or with an unknown usage of one, is left out."""
    items = [
        usage("a", ("c", {"cpu": "100m"}), ("d", {"cpu": "1500u"}), window="1m0s"),
        usage("b", ("c", {"cpu": "100m"}), ("d", {"memory": "1Mi"})),
        usage("c"),
    ]
    server.put(RESOURCE, {"items": items})
    found = await sources.resource_metric("default", "app=web", "cpu")
    assert found == {"a": PodMetric(102, AT, timedelta(seconds=60))}
    assert server.asked == [(RESOURCE, (("labelSelector", "app=web"),))]


async def test_one_container_counts(server: Scripted, sources: MetricsClient) -> None:
    """A pod that has no such container is left out."""
    items = [
        usage("a", ("c", {"cpu": "100m"}), ("d", {"cpu": "1"})),
        usage("b", ("c", {"cpu": "7m"})),
    ]
    server.put(RESOURCE, {"items": items})
    found = await sources.resource_metric("default", "", "cpu", "d")
    assert found == {"a": PodMetric(1000, AT, timedelta(seconds=30))}
    assert server.asked == [(RESOURCE, ())]


OF_QUEUE = "(get queue.external.metrics.k8s.io)"
LATE = (
    "the server was unable to return a response in the time allotted, but may still be "
    "processing the request"
)
BROKEN = (
    'an error on the server ("it said \\"no\\"") has prevented the request from '
    "succeeding"
)
TOO_MANY = "the server has received too many requests and has asked us to try"
UNKNOWN = "the server responded with the status code 418"
STATUS: JSON = {"status": "Failure", "message": "told to fail", "code": 503}


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (404, "404 page not found", "the server could not find the requested resource"),
        (503, "unavailable", "the server is currently unable to handle the request"),
        (500, 'it said "no"', BROKEN),
        (401, "who?", "the server has asked for the client to provide credentials"),
        (429, "slow down", f"{TOO_MANY} again later"),
        (418, "teapot", f"{UNKNOWN} but did not return more information"),
    ],
)
async def test_an_answer_without_a_status_gets_the_message_of_client_go(
    server: Scripted, sources: MetricsClient, status: int, text: str, message: str
) -> None:
    """Autoscalers show it in a condition. That of a status is the same."""
    server.put_text(RESOURCE, text, status)
    assert await failure(sources, "resource") == f"{message} (get pods.metrics.k8s.io)"
    server.put(RESOURCE, STATUS, 503)
    assert await failure(sources, "resource") == "told to fail"


async def failure(
    sources: MetricsClient, which: str, of: CrossVersionObjectReference | None = None
) -> str:
    """Return the error of a read, without the words that name the API."""
    with pytest.raises(ComputationError) as caught:
        await read(sources, which, of)
    before = f"unable to fetch metrics from {which} metrics API: "
    assert str(caught.value).startswith(before)
    return str(caught.value).removeprefix(before)


@pytest.mark.parametrize(
    ("path", "which"),
    [(RESOURCE, "resource"), (OF_PODS, "custom"), (EXTERNAL, "external")],
)
async def test_no_metrics_are_an_error(
    server: Scripted, sources: MetricsClient, path: str, which: str
) -> None:
    server.put(path, {"items": None})
    with pytest.raises(ComputationError) as caught:
        await read(sources, which)
    assert str(caught.value) == f"no metrics returned from {which} metrics API"


async def read(
    sources: MetricsClient, which: str, of: CrossVersionObjectReference | None = None
) -> object:
    if of is not None:
        return await sources.object_metric("default", of, "hits", "")
    if which == "resource":
        return await sources.resource_metric("default", "app=web", "cpu")
    if which == "custom":
        return await sources.raw_metric("default", "app=web", "hits", "")
    return await sources.external_metric("default", "queue", "")


async def test_the_server_selects(server: Scripted, sources: MetricsClient) -> None:
    """Values are rounded up to thousandths."""
    items = [{"metricName": "queue", "value": each} for each in ("3", "1500u")]
    server.put(EXTERNAL, {"items": items})
    assert await sources.external_metric("default", "queue", "q=a") == [3000, 2]
    assert server.asked == [(EXTERNAL, (("labelSelector", "q=a"),))]


@pytest.mark.parametrize(
    ("path", "which", "item"),
    [
        (RESOURCE, "resource", usage("a", ("c", {"cpu": "many"}))),
        (RESOURCE, "resource", usage("a", ("c", {"cpu": "1"}), window="long")),
        (OF_PODS, "custom", value("a", "many")),
        (EXTERNAL, "external", {"value": "many"}),
    ],
)
async def test_a_value_that_is_no_quantity_is_an_error(
    server: Scripted, sources: MetricsClient, path: str, which: str, item: JSON
) -> None:
    """The condition of the autoscaler shows it, and no exception escapes."""
    server.put(path, {"items": [item]})
    assert await failure(sources, which)


async def test_numbers_are_quantities(server: Scripted, sources: MetricsClient) -> None:
    """Some servers write numbers without quotes, and Go takes them."""
    server.put(EXTERNAL, {"items": [{"value": 3}, {"value": 0.25}]})
    server.put(RESOURCE, {"items": [usage("a", ("c", {"cpu": 2}))]})
    assert await sources.external_metric("default", "queue", "") == [3000, 250]
    found = await sources.resource_metric("default", "", "cpu")
    assert found["a"].value == 2000


async def test_odd_names_are_not_read(server: Scripted, sources: MetricsClient) -> None:
    """The request would have another path."""
    with pytest.raises(ComputationError) as caught:
        await sources.external_metric("default", "../pods", "")
    assert str(caught.value) == (
        "unable to fetch metrics from external metrics API: "
        "invalid resource '../pods': it may not be '.' or '..', nor have '/' or '%'"
    )
    assert server.asked == []


async def test_pods_are_read_at_once(server: Scripted, sources: MetricsClient) -> None:
    """Both versions of the API name the window differently; without one it is 60 s."""
    items = [
        value("a", "5", windowSeconds=30),
        value("b", "250m", window=10),
        value("c", "1"),
    ]
    server.put(OF_PODS, {"items": items})
    found = await sources.raw_metric("default", "app=web", "hits", "verb=get")
    assert found == {
        "a": PodMetric(5000, AT, timedelta(seconds=30)),
        "b": PodMetric(250, AT, timedelta(seconds=10)),
        "c": PodMetric(1000, AT, timedelta(seconds=60)),
    }
    query = (("labelSelector", "app=web"), ("metricLabelSelector", "verb=get"))
    assert server.asked == [(CUSTOM, ()), (OF_PODS, query)]


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        (SERVICE, "services/web/hits"),
        (CrossVersionObjectReference(kind="Namespace", name="other"), "metrics/hits"),
    ],
)
async def test_a_metric_of_an_object_is_read_below_its_resource(
    server: Scripted,
    sources: MetricsClient,
    reference: CrossVersionObjectReference,
    path: str,
) -> None:
    """A namespace is always the autoscaler's own, not that of the name in the spec."""
    whole = f"{CUSTOM}/v1beta2/namespaces/default/{path}"
    server.put(whole, {"items": [value("web", "12")]})
    found = await sources.object_metric("default", reference, "hits", "")
    assert (found, server.asked[-1]) == (12_000, (whole, ()))


async def test_objects_have_one_value(server: Scripted, sources: MetricsClient) -> None:
    gate = CrossVersionObjectReference(
        kind="Gate", name="web", api_version="example.com/v1"
    )
    assert await failure(sources, "custom", gate) == (
        "unable to map kind Gate.example.com to resource: no matches for kind "
        '"Gate" in group "example.com"'
    )
    path = f"{CUSTOM}/v1beta2/namespaces/default/services/web/hits"
    server.put(path, {"items": [value("web", "1"), value("web", "2")]})
    assert await failure(sources, "custom", SERVICE) == (
        "the custom metrics API server returned 2 results when we asked for exactly one"
    )


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        (group("v1beta2", "v1beta1", "v1beta2"), "v1beta2"),
        (group("v1beta1", "v1beta2", "v1beta1"), "v1beta1"),
        (group("v9", "v9", "v1beta1", "v1beta2"), "v1beta1"),
    ],
)
async def test_the_preferred_version_is_read_if_it_is_known(
    server: Scripted, sources: MetricsClient, answer: JSON, version: str
) -> None:
    server.put(CUSTOM, answer)
    path = f"{CUSTOM}/{version}/namespaces/default/pods/*/hits"
    server.put(path, {"items": [value("a", "1")]})
    assert (await sources.raw_metric("default", "", "hits", "")).keys() == {"a"}


async def test_unknown_versions_fail(server: Scripted, sources: MetricsClient) -> None:
    server.put(CUSTOM, group("v9", "v9"))
    found = await failure(sources, "custom")
    assert found == "no known available metric versions found"
    del server.answers[CUSTOM]
    found = await failure(sources, "custom")
    assert found == "no custom metrics API (custom.metrics.k8s.io) registered"


async def test_a_version_is_kept(server: Scripted, sources: MetricsClient) -> None:
    """Autoscalers that ask at the same time share the request."""
    server.put(OF_PODS, {"items": [value("a", "1")]})
    asked = [sources.raw_metric("default", "", "hits", "") for _ in range(3)]
    await asyncio.gather(*asked)
    await asyncio.sleep(SYNC_PERIOD - 1)
    await sources.raw_metric("default", "", "hits", "")
    assert [path for path, _ in server.asked].count(CUSTOM) == 1
    await asyncio.sleep(1)
    await sources.raw_metric("default", "", "hits", "")
    assert [path for path, _ in server.asked].count(CUSTOM) == 2


async def test_requests_time_out(server: Scripted, sources: MetricsClient) -> None:
    server.hanging[EXTERNAL] = asyncio.Event()
    began = asyncio.get_running_loop().time()
    assert await failure(sources, "external") == f"{LATE} {OF_QUEUE}"
    assert asyncio.get_running_loop().time() - began == pytest.approx(30)


async def test_slots_are_limited(server: Scripted, sources: MetricsClient) -> None:
    """Others wait for a second and then give up; other APIs go on."""
    of_queue = [MetricSpec(type="External")]
    server.hanging[EXTERNAL] = asyncio.Event()
    server.put(RESOURCE, {"items": [usage("a", ("c", {"cpu": "1"}))]})
    hanging = [asyncio.create_task(read(sources, "external")) for _ in range(2)]
    await asyncio.sleep(0)
    assert sources.busy(of_queue) is None
    with pytest.raises(metrics_api.APIStuck):
        await read(sources, "external")
    await asyncio.sleep(0.1)
    assert sources.busy(of_queue) is sources.external
    assert sources.busy([MetricSpec(type="Resource")]) is None
    assert await read(sources, "resource")
    assert len([path for path, _ in server.asked if path == EXTERNAL]) == 2
    server.hanging[EXTERNAL].set()
    server.put(EXTERNAL, {"items": [{"value": "1"}]})
    assert await asyncio.gather(*hanging) == [[1000], [1000]]
    assert sources.busy(of_queue) is None


async def test_others_do_not_wait(server: Scripted, sources: MetricsClient) -> None:
    """They fail with the same message, until the API answers again."""
    server.hanging[EXTERNAL] = asyncio.Event()
    hanging = [asyncio.create_task(read(sources, "external")) for _ in range(2)]
    await asyncio.gather(*hanging, return_exceptions=True)
    again = [asyncio.create_task(read(sources, "external")) for _ in range(2)]
    await asyncio.sleep(1.1)
    asked, began = len(server.asked), asyncio.get_running_loop().time()
    assert await failure(sources, "external") == f"{LATE} {OF_QUEUE}"
    assert (len(server.asked), asyncio.get_running_loop().time()) == (asked, began)
    assert sources.busy([MetricSpec(type="External")]) is None
    server.put(EXTERNAL, {"items": [{"value": "1"}]})
    server.hanging[EXTERNAL].set()
    assert await asyncio.gather(*again) == [[1000], [1000]]
    assert await read(sources, "external") == [1000]
