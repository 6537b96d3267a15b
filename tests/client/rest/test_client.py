"""The typed verbs, against the development cluster in memory."""

import asyncio
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller_manager.api.apps import v1
from controller_manager.api.autoscaling.v1 import Scale
from controller_manager.api.core.v1 import NODES, PODS, Pod, PodMeta, PodTemplateSpec
from controller_manager.api.meta import ObjectMeta, PartialObject, metadata_of, raw_json
from controller_manager.api.selectors import LabelSelector
from controller_manager.client.discovery.resources import discover, served_resources
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import (
    Client,
    DeleteOptions,
    ListOptions,
    PatchType,
    PropagationPolicy,
    WatchOptions,
)
from controller_manager.client.rest.limits import RequestLimiter
from controller_manager.client.rest.request import ServerClock
from controller_manager.client.rest.serializer import Added, Bookmark, Deleted, Modified
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.clock import LoopClock
from tests.clusters import EPOCH, Cluster
from tests.streams import FakeTransport

pytestmark = pytest.mark.looptime


def deployment(name: str = "web", replicas: int = 2) -> v1.Deployment:
    labels = {"app": name}
    return v1.Deployment(
        metadata=ObjectMeta(name=name, namespace="default", labels=labels),
        spec=v1.DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels),
                spec=raw_json({"containers": [{"name": "c", "image": "app:v1"}]}),
            ),
        ),
    )


async def scale_to(client: Client, replicas: int) -> Scale:
    scale = await client.get_scale(v1.DEPLOYMENTS, "default", "web")
    spec = msgspec.structs.replace(scale.spec, replicas=replicas)
    return await client.replace_scale(
        v1.DEPLOYMENTS, msgspec.structs.replace(scale, spec=spec)
    )


async def test_an_object_goes_through_all_verbs(cluster: Cluster) -> None:
    client = cluster.client
    created = await client.create(v1.DEPLOYMENTS, deployment())
    assert created.spec.revision_history_limit == 10
    assert await client.get(v1.DEPLOYMENTS, "default", "web") == created
    bigger = msgspec.structs.replace(
        created, spec=msgspec.structs.replace(created.spec, replicas=5)
    )
    updated = await client.update(v1.DEPLOYMENTS, bigger)
    assert (updated.spec.replicas, updated.metadata.generation) == (5, 2)
    patched = await client.patch(
        v1.DEPLOYMENTS, "default", "web", {"spec": {"paused": True}}, PatchType.MERGE
    )
    assert patched.spec.paused
    scale = await scale_to(client, 7)
    assert scale == await client.get_scale(v1.DEPLOYMENTS, "default", "web")
    assert scale.spec.replicas == 7
    current = await client.get(v1.DEPLOYMENTS, "default", "web")
    reported = await client.update(
        v1.DEPLOYMENTS,
        msgspec.structs.replace(current, status=v1.DeploymentStatus(replicas=3)),
        "status",
    )
    assert (reported.status.replicas, reported.spec.replicas) == (3, 7)
    await client.delete(v1.DEPLOYMENTS, "default", "web")
    with pytest.raises(errors.NotFound):
        await client.get(v1.DEPLOYMENTS, "default", "web")


async def test_json_verbs_carry_every_field(cluster: Cluster) -> None:
    """An object that is read as JSON and written back keeps fields that no type has."""
    await cluster.client.create(v1.DEPLOYMENTS, deployment())
    obj = await cluster.client.get_json(v1.DEPLOYMENTS, "default", "web")
    obj["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    await cluster.client.update_json(v1.DEPLOYMENTS, obj)
    again = await cluster.client.get_json(v1.DEPLOYMENTS, "default", "web")
    assert again["spec"] == obj["spec"]


async def test_a_write_for_metadata_answers_with_metadata(cluster: Cluster) -> None:
    """The API server sends the whole object only if it cannot do so."""
    client = cluster.client
    created = await client.create_for_metadata(v1.DEPLOYMENTS, deployment())
    first = await client.get(v1.DEPLOYMENTS, "default", "web")
    scaled = msgspec.structs.replace(
        first, spec=msgspec.structs.replace(first.spec, replicas=3)
    )
    updated = await client.update_for_metadata(v1.DEPLOYMENTS, scaled)
    second = await client.get(v1.DEPLOYMENTS, "default", "web")
    assert second.spec.replicas == 3
    for answer, stored in ((created, first), (updated, second)):
        assert type(answer) is PartialObject
        assert answer.metadata.uid == stored.metadata.uid
        assert answer.metadata.resource_version == stored.metadata.resource_version


async def test_a_write_for_metadata_names_the_form_of_its_answer() -> None:
    """The write hook gets the answer, so that the cache is awaited."""
    body = msgspec.json.encode(deployment())
    seen: list[tuple[str, str]] = []
    transport = Scripted(*(Response(200, {}, body) for _ in range(4)))
    client = Client(
        transport,
        LoopClock(EPOCH),
        on_write=lambda resource, obj: seen.append(
            (resource.plural, type(obj).__name__)
        ),
    )
    await client.create_for_metadata(v1.DEPLOYMENTS, deployment())
    await client.update_for_metadata(v1.DEPLOYMENTS, deployment(), "status")
    await client.patch(metadata_of(PODS), "default", "web", {})
    await client.create_json(metadata_of(PODS), "default", body)
    assert (
        seen == [("deployments", "PartialObject")] * 2 + [("pods", "PartialObject")] * 2
    )
    assert [(each.method, each.path) for each in transport.requests] == [
        ("POST", "/apis/apps/v1/namespaces/default/deployments"),
        ("PUT", "/apis/apps/v1/namespaces/default/deployments/web/status"),
        ("PATCH", "/api/v1/namespaces/default/pods/web"),
        ("POST", "/api/v1/namespaces/default/pods"),
    ]
    assert {each.headers["accept"] for each in transport.requests} == {
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
    }


@pytest.mark.parametrize(
    ("patch", "kind"),
    [
        ([{"op": "replace", "path": "/spec/replicas", "value": 4}], PatchType.JSON),
        ({"spec": {"replicas": 4}}, PatchType.MERGE),
        ({"spec": {"replicas": 4}}, PatchType.STRATEGIC),
    ],
)
async def test_each_of_the_three_kinds_of_patch_sets_a_field(
    cluster: Cluster, patch: Any, kind: PatchType
) -> None:
    await cluster.client.create(v1.DEPLOYMENTS, deployment())
    patched = await cluster.client.patch(v1.DEPLOYMENTS, "default", "web", patch, kind)
    assert patched.spec.replicas == 4


async def test_a_list_is_read_in_pages(cluster: Cluster) -> None:
    for number in range(7):
        await cluster.client.create(v1.DEPLOYMENTS, deployment(f"d{number}"))
    pages = [
        page async for page in cluster.client.list_all(v1.DEPLOYMENTS, page_size=3)
    ]
    assert [[each.metadata.name for each in page.items] for page in pages] == [
        ["d0", "d1", "d2"],
        ["d3", "d4", "d5"],
        ["d6"],
    ]
    assert len({page.resource_version for page in pages}) == 1


async def test_a_list_that_takes_too_long_expires(cluster: Cluster) -> None:
    """The pages that were read before must be discarded."""
    for number in range(4):
        await cluster.client.create(v1.DEPLOYMENTS, deployment(f"d{number}"))
    pages = cluster.client.list_all(v1.DEPLOYMENTS, page_size=2)
    await anext(pages)
    await cluster.client.create(v1.DEPLOYMENTS, deployment("x"))
    cluster.server.storage.collection("deployments.apps").compact()
    with pytest.raises(errors.Expired):
        await anext(pages)


async def test_selectors_restrict_a_list(cluster: Cluster) -> None:
    for name in ("a", "b"):
        await cluster.client.create(v1.DEPLOYMENTS, deployment(name))
    by_label = await cluster.client.list_page(
        v1.DEPLOYMENTS, options=ListOptions(label_selector="app=b")
    )
    by_field = await cluster.client.list_page(
        v1.DEPLOYMENTS, options=ListOptions(field_selector="metadata.name!=b")
    )
    names = [
        [each.metadata.name for each in page.items] for page in (by_label, by_field)
    ]
    assert names == [["b"], ["a"]]


async def test_a_watch_shows_every_change(cluster: Cluster) -> None:
    client = cluster.client
    first = await client.create(v1.DEPLOYMENTS, deployment())
    seen: list[Any] = []
    options = WatchOptions(send_initial_events=True, timeout_seconds=5)
    async with aclosing(client.watch(v1.DEPLOYMENTS, options=options)) as stream:
        async for batch in stream:
            seen += batch
            if len(seen) == 2:
                await scale_to(client, 9)
            elif len(seen) == 3:
                await client.delete(v1.DEPLOYMENTS, "default", "web")
    assert seen[0] == Added(first)
    assert isinstance(seen[1], Bookmark)
    assert seen[1].ends_initial_events
    assert isinstance(seen[2], Modified)
    assert seen[2].object.spec.replicas == 9
    assert isinstance(seen[3], Deleted)
    assert isinstance(seen[4], Bookmark)
    assert not seen[4].ends_initial_events
    assert len(seen) == 5


async def test_a_deletion_takes_options_and_preconditions(cluster: Cluster) -> None:
    client = cluster.client
    created = await client.create(v1.DEPLOYMENTS, deployment())
    for options in (DeleteOptions(uid="x"), DeleteOptions(resource_version="1")):
        with pytest.raises(errors.Conflict):
            await client.delete(v1.DEPLOYMENTS, "default", "web", options)
    right = DeleteOptions(
        uid=created.metadata.uid,
        resource_version=created.metadata.resource_version,
        propagation_policy=PropagationPolicy.FOREGROUND,
    )
    await client.delete(v1.DEPLOYMENTS, "default", "web", right)
    left = await client.get(v1.DEPLOYMENTS, "default", "web")
    assert left.metadata.finalizers == ("foregroundDeletion",)


async def test_a_dry_run_deletes_nothing(cluster: Cluster) -> None:
    await cluster.client.create(v1.DEPLOYMENTS, deployment())
    await cluster.client.delete(
        v1.DEPLOYMENTS, "default", "web", DeleteOptions(dry_run=True)
    )
    assert await cluster.client.get(v1.DEPLOYMENTS, "default", "web")


async def test_discovery_returns_the_served_resources(cluster: Cluster) -> None:
    apps = await served_resources(cluster.client, "apps/v1")
    assert apps is not None
    assert {"deployments", "deployments/scale", "replicasets"} <= apps
    assert await served_resources(cluster.client, "absent/v1") is None


# Failures


class Scripted(FakeTransport):
    def __init__(self, *answers: Response | Exception) -> None:
        self.answers = deque(answers)
        self.requests: list[Request] = []

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def stream(self, request: Request) -> Stream:
        raise errors.TransportError(request.path)


def status(code: int, reason: str, **more: Any) -> bytes:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "no", **more}
    return json.dumps(body).encode()


def scripted(*answers: Response | Exception) -> tuple[Client, Scripted]:
    transport = Scripted(*answers)
    return Client(transport, LoopClock(EPOCH)), transport


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (409, "", errors.Conflict),
        (410, "Expired", errors.Expired),
        (410, "Gone", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.InternalError),
        (503, "", errors.ServiceUnavailable),
        (504, "Timeout", errors.Timeout),
        (504, "ServerTimeout", errors.ServerTimeout),
    ],
)
async def test_a_refusal_is_raised_by_reason(
    code: int, reason: str, error: type[errors.APIError]
) -> None:
    client, _ = scripted(Response(code, {}, status(code, reason)))
    with pytest.raises(error) as caught:
        await client.get(PODS, "default", "a")
    assert type(caught.value) is error
    assert (caught.value.code, str(caught.value)) == (code, "no")


async def test_the_answer_of_a_proxy_is_an_error_too() -> None:
    client, _ = scripted(Response(502, {}, b"<html>Bad gateway</html>"))
    with pytest.raises(errors.APIError, match="Bad gateway"):
        await client.get(PODS, "default", "a")


async def test_an_answer_that_cannot_be_read_is_a_protocol_error() -> None:
    client, _ = scripted(Response(200, {}, b"{"))
    with pytest.raises(errors.ProtocolError, match="cannot be read"):
        await client.get(PODS, "default", "a")


async def test_a_request_is_repeated_if_the_server_sends_retry_after() -> None:
    refusal = Response(429, {"retry-after": "3"}, status(429, "TooManyRequests"))
    client, transport = scripted(refusal, refusal, Response(200, {}, b"{}"))
    await client.delete(PODS, "default", "a")
    assert asyncio.get_running_loop().time() == 6
    assert len(transport.requests) == 3


async def test_the_error_is_raised_if_a_server_always_asks_for_a_retry() -> None:
    refusal = Response(503, {"retry-after": "1"}, status(503, ""))
    client, transport = scripted(*[refusal] * 20)
    with pytest.raises(errors.ServiceUnavailable) as caught:
        await client.get(PODS, "default", "a")
    assert caught.value.retry_after == 1
    assert len(transport.requests) == 11


async def test_a_read_without_an_answer_is_repeated_and_a_write_is_not() -> None:
    """A write may have been carried out."""
    client, transport = scripted(errors.TransportError("x"), Response(200, {}, b"{}"))
    await client.get(PODS, "default", "a")
    assert len(transport.requests) == 2
    client, transport = scripted(errors.TransportError("x"), Response(200, {}, b"{}"))
    with pytest.raises(errors.TransportError):
        await client.delete(PODS, "default", "a")
    assert len(transport.requests) == 1


async def test_a_read_that_timed_out_is_not_repeated_at_once() -> None:
    """A list may have taken two minutes; its reflector tries again after a backoff."""
    client, transport = scripted(errors.RequestTimeout("x"), Response(200, {}, b"{}"))
    with pytest.raises(errors.RequestTimeout):
        await client.list_page(PODS)
    assert len(transport.requests) == 1


REDIRECTS = (
    ("https://me:secret@login.test:8443/sso?token=secret", "login.test:8443"),
    ("https://login.test/", "login.test"),
    ("/login?next=secret", "another path"),
    ("https://[secret/", "a place that cannot be read"),
)


@pytest.mark.parametrize(("location", "shown"), REDIRECTS)
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_no_success(code: int, location: str, shown: str) -> None:
    """A login page answered: an empty body looked like a write that succeeded.

    The message shows only the host that the redirect leads to.
    """
    redirect = Response(code, {"location": location}, b"<html>")
    client, transport = scripted(*[redirect] * 2)
    for attempt in (
        client.delete(PODS, "default", "a"),
        client.get(PODS, "default", "a"),
    ):
        with pytest.raises(errors.Redirected) as caught:
            await attempt
        assert str(caught.value) == (
            f"the server answered HTTP {code}: it redirects to {shown}, and redirects "
            "are not followed; check the kubeconfig's server, and the proxies in "
            "front of it"
        )
        assert not errors.may_be_applied(caught.value)
    assert len(transport.requests) == 2


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (304, errors.Redirected, "the server answered HTTP 304, which no API server"),
        (226, errors.APIError, "the server answered HTTP 226"),
    ],
)
async def test_a_code_that_no_api_server_sends_is_no_success(
    code: int, error: type[Exception], message: str
) -> None:
    """A write counts as done with the codes 200 to 206, as in client-go."""
    client, _ = scripted(Response(code, {}, b""))
    with pytest.raises(error, match=message):
        await client.delete(PODS, "default", "a")


async def test_a_watch_that_is_redirected_fails(cluster: Cluster) -> None:
    async def redirect(_: Request) -> Response:
        return Response(302, {"location": "https://login.test/"}, b"<html>")

    cluster.server.handle = redirect  # type: ignore[method-assign,assignment]
    with pytest.raises(errors.Redirected, match=r"it redirects to login\.test,"):
        await anext(cluster.client.watch(PODS))
    with pytest.raises(errors.Redirected, match=r"it redirects to login\.test,"):
        await discover(cluster.client)


@pytest.mark.parametrize(
    ("error", "doubtful"),
    [
        (errors.RequestTimeout("no answer"), True),
        (errors.TransportError("connection reset"), True),
        (errors.ProtocolError("garbage"), True),
        (errors.error_from_response(504, status(504, "Timeout"), None), True),
        (errors.error_from_response(500, status(500, "ServerTimeout"), None), True),
        (errors.error_from_response(502, b"<html>", None), True),
        (
            errors.error_from_response(
                500,
                status(500, "InternalError", message="etcdserver: request timed out"),
                None,
            ),
            True,
        ),
        (errors.NotSent("cannot connect"), False),
        (errors.InvalidName("a/b"), False),
        (errors.UntrustedServer("who?"), False),
        (errors.error_from_response(500, status(500, "InternalError"), None), False),
        (errors.error_from_response(503, b"busy", None), False),
        (errors.error_from_response(429, status(429, ""), None), False),
        (errors.error_from_response(403, status(403, "Forbidden"), None), False),
    ],
)
async def test_a_write_may_be_stored_only_if_its_answer_is_missing(
    error: Exception, doubtful: bool
) -> None:
    """If a webhook fails, nothing was stored, so no object needs to be looked for."""
    assert errors.may_be_applied(error) is doubtful


HOSTILE = (
    "kube-system/services/https:admin-ui:443/proxy/api/restart",
    "..",
    ".",
    "a%2fb",
    "a\nb/c",
)


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_name_that_leads_to_another_path_is_not_sent(name: str) -> None:
    client, transport = scripted()
    here = v1.Deployment(metadata=ObjectMeta(name=name, namespace="default"))
    elsewhere = v1.Deployment(metadata=ObjectMeta(name="a", namespace=name))
    attempts = [
        client.get(PODS, "default", name),
        client.get(PODS, name, "a"),
        client.get_json(PODS, "default", name),
        client.list_page(PODS, name),
        anext(client.watch(PODS, name)),
        client.create(v1.DEPLOYMENTS, elsewhere),
        client.create_json(PODS, name, b"{}"),
        client.create_subresource(PODS, "default", name, "eviction", here),
        client.update(v1.DEPLOYMENTS, here),
        client.update_json(PODS, {"metadata": {"namespace": "n", "name": name}}),
        client.patch(PODS, "default", name, {}),
        client.delete(PODS, "default", name),
        client.delete_collection(PODS, name),
        client.get_scale(PODS, "default", name),
        client.replace_scale(PODS, Scale(metadata=here.metadata)),
    ]
    for attempt in attempts:
        with pytest.raises(errors.InvalidName, match=r"may not be '\.' or '\.\.'"):
            await attempt
    assert transport.requests == []


Attempts = Callable[[Client, str, str], dict[str, Awaitable[Any]]]


def on_an_object(client: Client, namespace: str, name: str) -> dict[str, Any]:
    metadata = ObjectMeta(name=name, namespace=namespace)
    here = v1.Deployment(metadata=metadata)
    of_mapping = {"metadata": {"namespace": namespace, "name": name}}
    return {
        "get": client.get(PODS, namespace, name),
        "get_json": client.get_json(PODS, namespace, name),
        "create_subresource": client.create_subresource(
            PODS, namespace, name, "eviction", here
        ),
        "update": client.update(v1.DEPLOYMENTS, here),
        "update status": client.update(v1.DEPLOYMENTS, here, "status"),
        "update_json": client.update_json(PODS, of_mapping),
        "update_json without the fields": client.update_json(PODS, {"metadata": {}}),
        "patch": client.patch(PODS, namespace, name, {}),
        "update_for_metadata": client.update_for_metadata(v1.DEPLOYMENTS, here),
        "patch status": client.patch(PODS, namespace, name, {}, subresource="status"),
        "apply": client.apply(PODS, of_mapping, "me"),
        "rewrite": client.rewrite(v1.DEPLOYMENTS, here, "me"),
        "patch_exactly": client.patch_exactly(v1.DEPLOYMENTS, here, {}),
        "delete": client.delete(PODS, namespace, name),
        "delete_exactly": client.delete_exactly(v1.DEPLOYMENTS, here),
        "get_scale": client.get_scale(v1.DEPLOYMENTS, namespace, name),
        "replace_scale": client.replace_scale(v1.DEPLOYMENTS, Scale(metadata=metadata)),
    }


def in_a_namespace(client: Client, namespace: str, name: str) -> dict[str, Any]:
    here = v1.Deployment(metadata=ObjectMeta(name=name, namespace=namespace))
    return {
        "create": client.create(v1.DEPLOYMENTS, here),
        "create_for_metadata": client.create_for_metadata(v1.DEPLOYMENTS, here),
        "create_json": client.create_json(PODS, namespace, b"{}"),
        "try_create": client.try_create(v1.DEPLOYMENTS, here),
        "delete_collection": client.delete_collection(PODS, namespace),
    }


OF_COLLECTIONS = {"list_page", "list_all", "watch"}
"""Verbs for which an empty namespace means all namespaces."""
OF_PATHS = {"raw", "read"}


@pytest.mark.parametrize(
    ("attempts", "namespace", "name", "what"),
    [
        (on_an_object, "default", "", "name"),
        (on_an_object, "", "a", "namespace"),
        (in_a_namespace, "", "a", "namespace"),
    ],
)
async def test_a_request_with_an_empty_name_is_not_sent(
    attempts: Attempts, namespace: str, name: str, what: str
) -> None:
    """Its path is that of a collection: delete would delete all objects."""
    client, transport = scripted()
    for verb, attempt in attempts(client, namespace, name).items():
        with pytest.raises(errors.InvalidName) as refusal:
            await attempt
        said = "name" if verb.endswith("without the fields") else what
        assert re.fullmatch(
            rf"(pods|deployments\.apps): the {said} of an object may not be empty",
            str(refusal.value),
        )
        assert not errors.may_be_applied(refusal.value)
    assert transport.requests == []


async def test_every_verb_of_the_client_refuses_empty_names() -> None:
    """A new verb must be added to the verbs of one of these tests."""
    client, _ = scripted()
    tested = {**on_an_object(client, "", ""), **in_a_namespace(client, "", "")}
    for attempt in tested.values():
        attempt.close()
    verbs = {name for name in dir(Client) if not name.startswith("_")}
    verbs.remove("api_client")  # tests/client/rest/test_api_client.py
    assert verbs == OF_COLLECTIONS | OF_PATHS | {verb.split()[0] for verb in tested}


async def test_a_cluster_scoped_object_needs_no_namespace() -> None:
    client, transport = scripted(Response(200, {}, b"{}"))
    await client.delete(NODES, "", "a")
    with pytest.raises(errors.InvalidName) as refusal:
        await client.delete(NODES, "", "")
    assert str(refusal.value) == "nodes: the name of an object may not be empty"
    assert [each.path for each in transport.requests] == ["/api/v1/nodes/a"]


async def test_a_projection_is_never_written_whole() -> None:
    """The server would delete the fields that it lacks; mypy finds these calls, too."""
    client, transport = scripted()
    pod = Pod(metadata=PodMeta(name="a", namespace="default"))
    attempts = [
        client.create(PODS, pod),  # type: ignore[type-var]
        client.update(PODS, pod),  # type: ignore[type-var]
        client.update(PODS, pod, "status"),  # type: ignore[type-var]
        client.create_subresource(PODS, "default", "a", "eviction", pod),  # type: ignore[type-var]
    ]
    for attempt in attempts:
        with pytest.raises(TypeError) as caught:
            await attempt
        assert str(caught.value) == (
            "Pod is a projection: a PUT would delete the fields that it lacks; "
            "patch the object, or create it from bytes"
        )
    assert transport.requests == []


async def test_names_with_dots_and_colons_are_sent() -> None:
    client, transport = scripted(*[Response(200, {}, b"{}")] * 2)
    await client.get(PODS, "default", "system:controller:job..v1")
    await client.get(PODS, "default", "...")
    assert [each.path for each in transport.requests] == [
        "/api/v1/namespaces/default/pods/system:controller:job..v1",
        "/api/v1/namespaces/default/pods/...",
    ]


async def test_the_write_timeout_begins_with_the_write(cluster: Cluster) -> None:
    sent: list[float] = []

    async def slow(_: Request) -> Response:
        sent.append(asyncio.get_running_loop().time())
        await asyncio.sleep(10)
        return Response(200, {}, b"{}")

    cluster.server.handle = slow  # type: ignore[method-assign,assignment]
    client = Client(cluster.transport, cluster.clock, in_flight=2, write_timeout=11)
    other = Client(cluster.transport, cluster.clock, in_flight=2)
    writes = [client.delete(PODS, "default", f"pod-{n}") for n in range(8)]
    await asyncio.gather(*writes, other.delete(PODS, "default", "another"))
    assert sent == [0, 0, 0, 10, 10, 20, 20, 30, 30]


async def test_a_terminating_namespace_is_distinguished_from_other_refusals() -> None:
    details = {"causes": [{"reason": "NamespaceTerminating"}]}
    ending = errors.error_from_response(
        403, status(403, "Forbidden", details=details), None
    )
    quota = errors.error_from_response(403, status(403, "Forbidden"), None)
    assert errors.is_namespace_terminating(ending)
    assert not errors.is_namespace_terminating(quota)


async def test_a_lost_answer_ends_with_the_timeout(cluster: Cluster) -> None:
    async def hang(_: Request) -> Response:
        await asyncio.sleep(1000)
        raise AssertionError

    cluster.server.handle = hang  # type: ignore[method-assign,assignment]
    with pytest.raises(errors.RequestTimeout, match="no answer within 70 s"):
        await cluster.client.delete(PODS, "default", "a")
    assert asyncio.get_running_loop().time() == 70


async def test_the_rate_limit_spaces_requests() -> None:
    limiter = RequestLimiter(10, 2, LoopClock(EPOCH))
    waits = [round(await limiter.acquire(), 6) for _ in range(4)]
    assert waits == [0, 0, 0.1, 0.1]
    assert await RequestLimiter(0, 0, LoopClock(EPOCH)).acquire() == 0


async def test_a_request_that_was_not_sent_gives_its_token_back() -> None:
    """The next in line is sent at once, and not after another tenth of a second."""
    clock = LoopClock(EPOCH)
    refused = errors.NotSent("cannot connect: Connection refused")
    transport = Scripted(*[refused] * 7, Response(200, {}, b"{}"))
    client = Client(transport, clock, RequestLimiter(10, 1, clock))
    tasks = [client.delete(PODS, "default", f"pod-{number}") for number in range(8)]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results == [*[refused] * 7, None]
    assert asyncio.get_running_loop().time() == 0


async def test_a_request_that_is_cancelled_while_it_waits_takes_no_token() -> None:
    limiter = RequestLimiter(10, 1, LoopClock(EPOCH))
    assert await limiter.acquire() == 0
    waiting = [asyncio.create_task(limiter.acquire()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    limiter.give_back()  # the second of them has the token now
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert asyncio.get_running_loop().time() == 0
    assert [each.cancelled() for each in waiting] == [True, True, False]


async def test_watches_are_limited_only_if_that_is_asked_for() -> None:
    """As client-go, which never limits them; monitors are many."""
    for limits, seconds in ((False, 0), (True, 0.2)):
        clock = LoopClock(EPOCH)
        limiter = RequestLimiter(10, 1, clock)
        client = Client(Scripted(), clock, limiter, limits_watches=limits)
        began = asyncio.get_running_loop().time()
        for _ in range(3):
            with pytest.raises(errors.TransportError):
                await anext(client.watch(PODS))
        waited = asyncio.get_running_loop().time() - began
        assert waited == pytest.approx(seconds)


class Observed:
    def __init__(self) -> None:
        self.requests: list[tuple[str, str, int, int]] = []

    def observe_request(
        self, method: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        assert seconds >= 0
        self.requests.append((method, code, sent, received))

    def observe_rate_limit(self, method: str, seconds: float) -> None:
        assert (method, seconds) == ("DELETE", 0.0)

    def retried(self, method: str, code: str) -> None:
        raise AssertionError((method, code))


async def test_every_request_is_observed() -> None:
    transport = Scripted(Response(200, {}, b"{}"), errors.TransportError("x"))
    observed = Observed()
    client = Client(transport, LoopClock(EPOCH), metrics=observed)
    await client.delete(PODS, "default", "a")
    with pytest.raises(errors.TransportError):
        await client.delete(PODS, "default", "a")
    size = len(DeleteOptions().encode())
    assert observed.requests == [
        ("DELETE", "200", size, 2),
        ("DELETE", "<error>", size, 0),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b"garbage\n", "garbage on the watch stream"),
        (b'{"type":"ODD","object":{}}\n', "an event of unknown type"),
        (
            b'{"type":"ADDED","object":{"metadata":3}}\n',
            "an object on the watch stream cannot be read",
        ),
    ],
)
async def test_garbage_on_a_watch_is_a_protocol_error(
    cluster: Cluster, lines: bytes, message: str
) -> None:
    """So that the reflector relists."""
    answering(cluster, lambda: Response(200, {}, lines))
    with pytest.raises(errors.ProtocolError, match=message):
        _ = [batch async for batch in cluster.client.watch(PODS)]


async def test_an_error_event_is_raised_as_its_api_error(cluster: Cluster) -> None:
    event = b'{"type":"ERROR","object":%s}\n' % status(410, "Expired")
    answering(cluster, lambda: Response(200, {}, event))
    with pytest.raises(errors.Expired):
        _ = [batch async for batch in cluster.client.watch(PODS)]


def answering(cluster: Cluster, answer: Callable[[], Response]) -> None:
    async def handle(_: Request) -> Response:
        return answer()

    cluster.server.handle = handle  # type: ignore[method-assign,assignment]


@pytest.mark.looptime
async def test_the_server_clock_follows_the_date_header() -> None:
    """To the second; the local clock may be wrong by hours."""
    ours = LoopClock(EPOCH + timedelta(hours=3))
    clock = ServerClock(ours)
    assert clock.now() == ours.now()
    cluster = Cluster()
    client = Client(cluster.transport, ours, server_clock=clock)
    await client.raw("GET", "/healthz")
    assert clock.now() == EPOCH
    await asyncio.sleep(90)
    assert (clock.now(), clock.monotonic()) == (
        EPOCH + timedelta(seconds=90),
        ours.monotonic(),
    )
    clock.observe("yesterday")
    assert clock.now() == ours.now()
