"""Code for kubernetes_asyncio runs over a client of ours."""

import asyncio
import gc
import json
import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
import pytest
from kubernetes_asyncio import client, dynamic, watch
from kubernetes_asyncio.client import ApiException
from kubernetes_asyncio.client.exceptions import ApiValueError

from controller_manager.api.core.v1 import CONFIG_MAPS, NAMESPACES
from controller_manager.api.meta import AnyResource, KubeObject
from controller_manager.client.builder import ClientBuilder, Connections
from controller_manager.client.leadership.fencing import NotLeading
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.limits import RequestLimiter
from controller_manager.client.rest.request import LIST_TIMEOUT, NoRequestMetrics
from controller_manager.client.rest.transport import (
    LARGEST_LIST,
    Request,
    Response,
    Stream,
)
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import WRITE_TIMEOUT, ClientConfig, RateLimit
from controller_manager.version import USER_AGENT
from tests.client.leadership.test_fencing import Owned
from tests.clusters import Cluster
from tests.streams import PassedStream

pytestmark = pytest.mark.looptime

SPEC = {"containers": [{"name": "c", "image": "nginx"}]}


def time() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Seen:
    cluster: Cluster
    requests: list[Request] = field(default_factory=list)
    open_streams: int = 0
    answer: Response | None = None
    lost: errors.TransportError | None = None

    host = "seen:443"

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        if self.lost is not None:
            raise self.lost
        return self.answer or await self.cluster.transport.request(request)

    async def stream(self, request: Request) -> Stream:
        self.requests.append(request)
        self.open_streams += 1
        return SeenStream(await self.cluster.transport.stream(request), self)

    async def close(self) -> None:
        pass


@dataclass
class SeenStream(PassedStream):
    seen: Seen

    async def close(self) -> None:
        self.seen.open_streams -= 1
        await self.inner.close()


@dataclass
class Observed(NoRequestMetrics):
    codes: list[tuple[str, str]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def observe_request(
        self, method: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        del seconds, sent, received
        self.codes.append((method, code))

    def observe_rate_limit(self, method: str, seconds: float) -> None:
        del method
        self.waits.append(seconds)


@pytest.fixture
def seen(cluster: Cluster) -> Seen:
    return Seen(cluster)


def core_of(transport: Seen, cluster: Cluster) -> Any:
    return client.CoreV1Api(Client(transport, cluster.clock).api_client())


def config_map(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


async def stored(cluster: Cluster, name: str) -> Any:
    obj = await cluster.client.get_json(CONFIG_MAPS, "default", name)
    return as_model(cluster, obj)


def as_model(cluster: Cluster, obj: Any) -> Any:
    answer: Any = SimpleNamespace(data=msgspec.json.encode(obj))
    return cluster.client.api_client().deserialize(answer, "V1ConfigMap")


async def test_objects_are_written_and_read_as_they_are_stored(
    cluster: Cluster, seen: Seen
) -> None:
    core = core_of(seen, cluster)
    created = await core.create_namespaced_config_map("default", config_map("a", x="1"))
    assert created == await stored(cluster, "a")
    created.data = {"x": "2"}
    replaced = await core.replace_namespaced_config_map("a", "default", created)
    assert (replaced.data, replaced) == ({"x": "2"}, await stored(cluster, "a"))
    listed = await core.list_namespaced_config_map("default", limit=5)
    assert [each.data for each in listed.items] == [{"x": "2"}]
    deleted = await core.delete_namespaced_config_map("a", "default")
    assert (deleted.status, deleted.details.name) == ("Success", "a")
    assert {name for each in seen.requests for name in each.headers} == {
        "accept",
        "content-type",
    }


async def test_an_api_client_has_all_parts_but_a_session_of_its_own(
    cluster: Cluster,
) -> None:
    """A release that gives it another part is noticed; it need not be closed."""
    async with cluster.client.api_client() as ours, client.ApiClient() as theirs:
        assert vars(ours).keys() == vars(theirs).keys()
        assert not hasattr(ours.rest_client, "pool_manager")
        assert ours.user_agent == USER_AGENT
    core = client.CoreV1Api(ours)
    assert (await core.read_namespace("default")).metadata.name == "default"


PATCHES: Any = (
    ({"data": {"x": None, "y": "2"}}, {}, "application/strategic-merge-patch+json"),
    (
        {"data": {"x": None, "y": "2"}},
        {"_content_type": "application/merge-patch+json"},
        "application/merge-patch+json",
    ),
    (
        [{"op": "replace", "path": "/data", "value": {"y": "2"}}],
        {},
        "application/json-patch+json",
    ),
    (
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"y": "2"}},
        {
            "_content_type": "application/apply-patch+yaml",
            "field_manager": "us",
            "force": True,
        },
        "application/apply-patch+yaml",
    ),
)


@pytest.mark.parametrize(("patch", "more", "media_type"), PATCHES)
async def test_a_patch_has_the_media_type_that_its_caller_means(
    cluster: Cluster, seen: Seen, patch: Any, more: dict[str, Any], media_type: str
) -> None:
    core = core_of(seen, cluster)
    applied = "apply" in media_type
    before = {} if applied else {"x": "1"}
    await core.create_namespaced_config_map("default", config_map("a", **before))
    patched = await core.patch_namespaced_config_map("a", "default", patch, **more)
    assert (patched.data, patched) == ({"y": "2"}, await stored(cluster, "a"))
    assert seen.requests[-1] == Request(
        "PATCH",
        "/api/v1/namespaces/default/configmaps/a",
        (("fieldManager", "us"), ("force", "true")) if applied else (),
        {"accept": "application/json", "content-type": media_type},
        json.dumps(patch).encode(),
        seen.requests[-1].timeout,
        LARGEST_LIST,
    )


async def test_a_refusal_is_an_api_exception(cluster: Cluster, seen: Seen) -> None:
    core = core_of(seen, cluster)
    with pytest.raises(ApiException) as refusal:
        await core.read_namespaced_config_map("a", "default")
    error = refusal.value
    answer = await cluster.transport.request(seen.requests[-1])
    headers: Any = error.headers
    assert (error.status, error.reason) == (404, "Not Found")
    assert str(error.body) == answer.body.decode()
    assert dict(headers) == dict(answer.headers)
    assert headers["Content-Type"] == "application/json"
    assert isinstance(error.__cause__, errors.NotFound)


async def test_a_standby_sends_no_write(cluster: Cluster, seen: Seen) -> None:
    """The error is that of the client, in the call that would have written."""
    config = ClientConfig(limit=RateLimit(qps=0))
    builder = ClientBuilder(
        Connections(seen),
        config,
        clock=cluster.clock,
        metrics=NoRequestMetrics(),
        logger=silent_logger(),
    )
    builder.fence(Owned(lambda: 0.0))
    core: Any = client.CoreV1Api(builder.controller("teams", "").api_client())
    await core.read_namespace("default")
    with pytest.raises(NotLeading, match="this process does not lead") as refusal:
        await core.create_namespaced_config_map("default", config_map("a"))
    assert not errors.may_be_applied(refusal.value)
    answering = {"_preload_content": False}
    with pytest.raises(NotLeading, match="this process does not lead"):
        await core.delete_namespaced_config_map("a", "default", **answering)
    assert [each.method for each in seen.requests] == ["GET"]


async def test_requests_wait_for_the_rate_limit(cluster: Cluster, seen: Seen) -> None:
    limiter = RequestLimiter(1, 1, cluster.clock)
    metrics = Observed()
    limited = Client(seen, cluster.clock, limiter, metrics)
    core: Any = client.CoreV1Api(limited.api_client())
    await core.create_namespaced_config_map("default", config_map("a"))
    await limited.get(CONFIG_MAPS, "default", "a")
    await core.list_namespaced_config_map("default", _preload_content=False)
    assert time() == pytest.approx(2.0, abs=0.1)
    assert metrics.codes == [("POST", "201"), ("GET", "200"), ("GET", "200")]
    assert metrics.waits == pytest.approx([0.0, 1.0, 1.0], abs=0.1)


async def test_a_busy_server_is_asked_again(cluster: Cluster, seen: Seen) -> None:
    core = core_of(seen, cluster)
    seen.answer = Response(429, {"retry-after": "2"}, b"{}")
    with pytest.raises(ApiException, match="Too Many Requests"):
        await core.read_namespace("default")
    assert len(seen.requests) == 11
    assert time() == pytest.approx(20.0)


async def test_a_lost_answer_is_a_clients_error(cluster: Cluster, seen: Seen) -> None:
    core = core_of(seen, cluster)
    seen.lost = errors.TransportError("the connection broke")
    with pytest.raises(errors.TransportError, match="the connection broke"):
        await core.delete_namespaced_config_map("a", "default")
    seen.lost = errors.RequestTimeout("no answer")
    with pytest.raises(TimeoutError, match="no answer") as late:
        await core.delete_namespaced_config_map("a", "default", _request_timeout=3)
    assert isinstance(late.value, errors.RequestTimeout)
    assert [each.timeout for each in seen.requests] == [WRITE_TIMEOUT, 3.0]


TIMEOUTS = (
    (2, 2.0),
    ((1, 2.5), 3.5),
    (aiohttp.ClientTimeout(total=4), 4.0),
    (aiohttp.ClientTimeout(sock_connect=1, sock_read=2), 3.0),
    (None, LIST_TIMEOUT),
)


@pytest.mark.parametrize(("given", "seconds"), TIMEOUTS)
async def test_a_timeout_is_given_as_to_kubernetes_asyncio(
    cluster: Cluster, seen: Seen, given: object, seconds: float
) -> None:
    await core_of(seen, cluster).read_namespace("default", _request_timeout=given)
    assert [each.timeout for each in seen.requests] == [seconds]


async def test_a_watch_lasts_until_its_cancelling(cluster: Cluster, seen: Seen) -> None:
    core = core_of(seen, cluster)
    events: list[tuple[str, str]] = []

    async def follow() -> None:
        changes = watch.Watch().stream(core.list_namespaced_config_map, "default")
        async for event in changes:
            assert event["object"] == as_model(cluster, event["raw_object"])
            events.append((event["type"], event["object"].metadata.name))

    following = asyncio.create_task(follow())
    await asyncio.sleep(1)
    await core.create_namespaced_config_map("default", config_map("a"))
    await core.patch_namespaced_config_map("a", "default", {"data": {"x": "1"}})
    await core.delete_namespaced_config_map("a", "default")
    await asyncio.sleep(1)
    assert (events, seen.open_streams) == (
        [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")],
        1,
    )
    following.cancel()
    await asyncio.wait([following])
    await asyncio.sleep(0)
    assert (following.cancelled(), seen.open_streams) == (True, 0)


async def test_a_watch_ends_with_its_server(cluster: Cluster, seen: Seen) -> None:
    core = core_of(seen, cluster)
    async with watch.Watch() as watching:
        changes = watching.stream(core.list_namespace, timeout_seconds=20)
        names = [event["object"].metadata.name async for event in changes]
    assert names == ["default", "kube-system"]
    assert time() == pytest.approx(20, abs=1)
    await asyncio.sleep(0)
    assert seen.open_streams == 0


async def test_a_silent_watch_is_opened_again(cluster: Cluster, seen: Seen) -> None:
    core = core_of(seen, cluster)

    async def follow() -> None:
        changes = watch.Watch().stream(core.list_namespace, _request_timeout=10)
        async for _ in changes:
            pass

    following = asyncio.create_task(follow())
    await asyncio.sleep(15)
    following.cancel()
    await asyncio.wait([following])
    last = await cluster.client.get_json(NAMESPACES, "", "kube-system")
    version = last["metadata"]["resourceVersion"]
    assert [dict(each.query) for each in seen.requests] == [
        {"watch": "true"},
        {"watch": "true", "resourceVersion": version},
    ]


async def test_a_refused_watch_raises_the_refusal(cluster: Cluster, seen: Seen) -> None:
    core = core_of(seen, cluster)
    changes = watch.Watch().stream(
        core.list_namespace, label_selector="a in", timeout_seconds=5
    )
    with pytest.raises(ApiException, match="BadRequest: ") as refusal:
        await anext(changes)
    assert refusal.value.status == 400


async def test_a_stream_that_is_dropped_ends(cluster: Cluster, seen: Seen) -> None:
    core = core_of(seen, cluster)

    async def first() -> str:
        answer = await core.list_namespace(watch=True, _preload_content=False)
        line: bytes = await answer.content.readline()
        return str(json.loads(line)["object"]["metadata"]["name"])

    assert (await first(), seen.open_streams) == ("default", 1)
    await core.read_namespace("default")  # kubernetes_asyncio keeps the last answer
    gc.collect()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen.open_streams == 0


async def test_an_answer_is_read_in_pieces_or_as_a_whole(cluster: Cluster) -> None:
    core: Any = client.CoreV1Api(cluster.client.api_client())
    name = "default"
    async with await core.read_namespace(name, _preload_content=False) as answer:
        assert (answer.status, answer.reason, answer.ok) == (200, "OK", True)
        found = await answer.json()
        assert found == await cluster.client.get_json(NAMESPACES, "", name)
        assert json.loads(await answer.text()) == found
    asked = {"_preload_content": False, "watch": True, "timeout_seconds": 5}
    async with await core.list_namespace(**asked) as answer:
        lines = [json.loads(line) async for line in answer.content]
    async with await core.list_namespace(**asked) as answer:
        begin = await answer.content.read(10)
        more = await answer.content.readany()
        rest = await answer.content.read()
        assert await answer.content.read(10) == b""
    assert [each["object"]["metadata"]["name"] for each in lines] == [
        "default",
        "kube-system",
    ]
    assert [*map(json.loads, (begin + more + rest).splitlines())] == lines


async def test_the_dynamic_client_works(cluster: Cluster, seen: Seen) -> None:
    api = Client(seen, cluster.clock).api_client()
    kinds = await dynamic.DynamicClient(api, cache_file=os.devnull)
    maps = await kinds.resources.get(api_version="v1", kind="ConfigMap")
    body = {"metadata": {"name": "a"}, "data": {"x": "1"}}
    await maps.create(body=body, namespace="default")
    found = await maps.get(name="a", namespace="default")
    assert found.to_dict() == await cluster.client.get_json(CONFIG_MAPS, "default", "a")


async def test_an_empty_name_reaches_no_server(cluster: Cluster, seen: Seen) -> None:
    """The request would be one for all objects of the namespace."""
    core = core_of(seen, cluster)
    for refused in (
        core.delete_namespaced_config_map("", "default"),
        core.delete_namespaced_config_map("a", ""),
        core.delete_namespace(""),
        core.delete_namespaced_config_map("../pods", "default"),
        core.delete_namespaced_config_map("..", "default"),
    ):
        with pytest.raises(errors.InvalidName):
            await refused
    assert seen.requests == []


async def test_a_name_is_sent_as_it_is(cluster: Cluster, seen: Seen) -> None:
    api = Client(seen, cluster.clock).api_client()
    roles = client.RbacAuthorizationV1Api(api)
    with pytest.raises(ApiException, match="Not Found"):
        await roles.read_cluster_role("system:controller:x")
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:controller:x"
    assert [each.path for each in seen.requests] == [path]


async def test_server_and_identity_are_kept(cluster: Cluster, seen: Seen) -> None:
    """Other ones need an ApiClient that its caller makes."""
    api = Client(seen, cluster.clock).api_client()
    with pytest.raises(ApiValueError, match="go to its own API server"):
        await api.call_api("/version/", "GET", _host="https://elsewhere")
    for header in ("Authorization", "Impersonate-User", "Cookie"):
        with pytest.raises(ApiValueError, match="has the identity of the controller"):
            await api.call_api("/version/", "GET", header_params={header: "x"})
    assert seen.requests == []


async def test_the_hook_learns_of_writes(cluster: Cluster) -> None:
    written: list[tuple[str, str, str]] = []

    def note(resource: AnyResource, obj: KubeObject) -> None:
        metadata = obj.metadata
        version = metadata.resource_version
        written.append((resource.group_resource, metadata.name, version))

    noting = Client(cluster.transport, cluster.clock, on_write=note).api_client()
    core: Any = client.CoreV1Api(noting)
    apps: Any = client.AppsV1Api(noting)
    made = await core.create_namespaced_config_map("default", config_map("a"))
    await core.create_namespaced_config_map("default", config_map("b"), dry_run="All")
    await core.delete_namespaced_config_map("a", "default")
    labels = {"app": "web"}
    deployment = {
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": SPEC},
        },
    }
    web = await apps.create_namespaced_deployment("default", deployment)
    scale = {"spec": {"replicas": 3}}
    await apps.patch_namespaced_deployment_scale("web", "default", scale)
    status = {"status": {"replicas": 1}}
    seen = await apps.patch_namespaced_deployment_status("web", "default", status)
    token: Any = {"spec": {"audiences": []}}
    await core.create_namespaced_service_account("default", {"metadata": {"name": "x"}})
    await core.create_namespaced_service_account_token("x", "default", token)
    accounts = await core.list_namespaced_service_account("default")
    assert written == [
        ("configmaps", "a", made.metadata.resource_version),
        ("deployments.apps", "web", web.metadata.resource_version),
        ("deployments.apps", "web", seen.metadata.resource_version),
        ("serviceaccounts", "x", accounts.items[-1].metadata.resource_version),
    ]
