"""Webhooks are asked as upstream asks them, and their answers count."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from controller_manager.client.transport import Response
from controller_manager.devcluster.kinds.batch.job import KIND as JOB
from controller_manager.devcluster.kinds.certificates.certificatesigningrequest import (
    KIND as SIGNING_REQUEST,
)
from controller_manager.devcluster.kinds.core.configmap import KIND as CONFIG_MAP
from controller_manager.devcluster.kinds.core.endpoints import KIND as ENDPOINTS
from controller_manager.devcluster.kinds.core.pod import KIND as POD
from controller_manager.devcluster.kinds.core.service import KIND as SERVICE
from controller_manager.devcluster.server.kind import Kind
from controller_manager.serving.certificates import self_signed
from tests.clusters import Cluster
from tests.devcluster.admission.webhook_server import (
    EVERYTHING,
    WebhookServer,
    bundle,
    configure,
    patch,
    request,
    webhook_server,
)
from tests.devcluster.kinds.minimal import minimal
from tests.devcluster.requests import call

JSON = dict[str, Any]

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


@pytest_asyncio.fixture
async def hook() -> AsyncGenerator[WebhookServer, None]:
    async with webhook_server() as server:
        yield server


def config_map(name: str = "a", **parts: Any) -> JSON:
    return {"metadata": {"name": name}, **parts}


def when(expression: str) -> JSON:
    """Return what makes a webhook conditional."""
    return {"matchConditions": [{"name": "a", "expression": expression}]}


async def post(cluster: Cluster, path: str, body: JSON) -> Response:
    return await call(cluster, "POST", path, json.dumps(body).encode())


def refusal(answer: Response) -> JSON:
    body: JSON = json.loads(answer.body)
    return {k: body[k] for k in ("message", "reason", "code") if k in body}


async def test_a_review_says_what_is_written(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """A validating webhook gets the object as it will be stored."""
    await configure(cluster, "validating", "a", hook.config())
    await request(
        cluster, "POST", f"{MAPS}?fieldManager=me", config_map(data={"a": "b"})
    )
    (review,) = hook.requests
    stored = await request(cluster, "GET", f"{MAPS}/a")
    for each in (stored["metadata"], review["object"]["metadata"]):
        each.pop("resourceVersion", None)
        each.pop("managedFields", None)
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    assert review == {
        "uid": review["uid"],
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "a",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {
            "username": "admin",
            "groups": ["system:masters"],
        },
        "object": stored,
        "oldObject": None,
        "dryRun": False,
        "options": {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": "me",
        },
    }


async def test_each_operation_is_reviewed_once(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """Also each object of a collection that is deleted, whose name is not told."""
    await configure(cluster, "validating", "a", hook.config())
    for name in ("a", "b"):
        await request(cluster, "POST", MAPS, config_map(name))
    change = {"data": {"x": "y"}}
    await request(cluster, "PATCH", f"{MAPS}/a", change, content_type=MERGE)
    await request(cluster, "DELETE", f"{MAPS}/b")
    await request(cluster, "DELETE", MAPS)
    seen = [
        (
            each["operation"],
            each.get("name", ""),
            ((each["object"] or {}).get("metadata") or {}).get("name"),
            ((each["oldObject"] or {}).get("metadata") or {}).get("name"),
            each["options"]["kind"],
        )
        for each in hook.requests
    ]
    assert seen == [
        ("CREATE", "a", "a", None, "CreateOptions"),
        ("CREATE", "b", "b", None, "CreateOptions"),
        ("UPDATE", "a", "a", "a", "UpdateOptions"),
        ("DELETE", "b", None, "b", "DeleteOptions"),
        ("DELETE", "", None, "a", "DeleteOptions"),
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            None,
            {
                "message": 'admission webhook "hook.example.com" denied the request '
                "without explanation",
                "code": 400,
            },
        ),
        (
            {"message": "no", "code": 403, "reason": "Forbidden"},
            {
                "message": 'admission webhook "hook.example.com" denied the request: '
                "no",
                "reason": "Forbidden",
                "code": 403,
            },
        ),
        (
            {"reason": "Gone", "code": 200},
            {
                "message": 'admission webhook "hook.example.com" denied the request: '
                "Gone",
                "reason": "Gone",
                "code": 400,
            },
        ),
    ],
)
@pytest.mark.parametrize("plural", ["mutating", "validating"])
async def test_a_webhook_refuses(
    cluster: Cluster, hook: WebhookServer, plural: str, status: JSON, expected: JSON
) -> None:
    """With its own words, and nothing is stored."""
    hook.reply = lambda _: {"allowed": False, "status": status, "warnings": ["so"]}
    await configure(cluster, plural, "a", hook.config())
    answer = await post(cluster, MAPS, config_map())
    assert (answer.status, refusal(answer)) == (expected["code"], expected)
    assert answer.headers["warning"] == '299 - "so"'
    assert (await call(cluster, "GET", f"{MAPS}/a")).status == 404


def _failed(why: str) -> str:
    return f'Internal error occurred: failed calling webhook "hook.example.com": {why}'


INVALID = "received invalid webhook response: "
WANTED = "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got "


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"kind": "AdmissionReview"}, f"{INVALID}webhook response was absent"),
        (
            {"kind": "A", "apiVersion": "b/v2", "response": {"uid": "?"}},
            f'{INVALID}expected response.uid="UID", got "?"',
        ),
        (
            {"kind": "A", "apiVersion": "b/v2", "response": {"uid": "UID"}},
            f"{INVALID}{WANTED}b/v2, Kind=A",
        ),
        (
            {"allowed": True, "patch": "W10="},
            (f"{INVALID}webhook returned response.patch but not response.patchType"),
        ),
        (
            {"allowed": True, "patchType": "JSONPatch"},
            (f"{INVALID}webhook returned response.patchType but not response.patch"),
        ),
        (
            {"allowed": True, "patchType": "Merge", "patch": "W10="},
            'unsupported patch type "Merge"',
        ),
        (
            {"allowed": True, "patchType": "JSONPatch", "patch": "e30="},
            (
                "received undecodable patch in webhook response: json: cannot "
                "unmarshal object into Go value of type jsonpatch.Patch"
            ),
        ),
        (
            "<html>",
            (
                "failed to call webhook: couldn't get version/kind; json parse error: "
                "invalid character '<' looking for beginning of value"
            ),
        ),
        (
            500,
            (
                'failed to call webhook: an error on the server ("oops") has '
                "prevented the request from succeeding"
            ),
        ),
        (
            404,
            (
                "failed to call webhook: the server could not find the requested "
                "resource"
            ),
        ),
        (302, 'failed to call webhook: Post "URL": stopped after 10 redirects'),
    ],
)
async def test_an_answer_of_no_use_is_a_failure(
    cluster: Cluster, hook: WebhookServer, answer: Any, expected: str
) -> None:
    """It refuses the write, unless failurePolicy is Ignore."""

    def reply(review: JSON) -> Any:
        if isinstance(answer, int):
            headers = {"Location": "/again"} if answer == 302 else {}
            return web.Response(status=answer, text="oops", headers=headers)
        if isinstance(answer, str):
            return web.Response(text=answer)
        return json.loads(json.dumps(answer).replace("UID", review["uid"]))

    hook.reply = reply
    await configure(cluster, "mutating", "a", hook.config())
    refused = await post(cluster, MAPS, config_map())
    said = json.loads(refused.body)
    url = f"https://127.0.0.1:{hook.port}/hook?timeout=10s"
    uid = hook.requests[0]["uid"]
    message = expected.replace("URL", url).replace("UID", uid)
    assert said == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": _failed(message),
        "reason": "InternalError",
        "details": {"causes": [{"message": _failed(message).partition(": ")[2]}]},
        "code": 500,
    }


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (
            {"url": "https://127.0.0.1:1/hook"},
            (
                'failed to call webhook: Post "https://127.0.0.1:1/hook?timeout=10s": '
                "dial tcp 127.0.0.1:1: connect: connection refused"
            ),
        ),
        (
            {"caBundle": bundle(self_signed("other", ["127.0.0.1"]))},
            (
                'failed to call webhook: Post "URL": tls: failed to verify '
                "certificate: x509: certificate signed by unknown authority"
            ),
        ),
        (
            {"caBundle": "bm9uZQ=="},
            (
                "could not get REST client: unable to load root certificates: unable "
                "to parse bytes as PEM block"
            ),
        ),
        (
            {"url": None, "service": {"name": "hook", "namespace": "default"}},
            (
                'failed to call webhook: Post "https://hook.default.svc:443/'
                '?timeout=10s": service "hook" not found'
            ),
        ),
    ],
)
async def test_a_webhook_that_cannot_be_reached_is_a_failure(
    cluster: Cluster, hook: WebhookServer, client: JSON, expected: str
) -> None:
    """With failurePolicy Ignore it counts as one that agrees."""
    config = hook.config()
    merged = {**config["clientConfig"], **client}
    config["clientConfig"] = {k: v for k, v in merged.items() if v is not None}
    await configure(cluster, "validating", "a", config)
    answer = await post(cluster, MAPS, config_map())
    url = f"https://127.0.0.1:{hook.port}/hook?timeout=10s"
    assert refusal(answer)["message"] == _failed(expected.replace("URL", url))
    ignored = {"webhooks": [{**config, "failurePolicy": "Ignore"}]}
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/a"
    await request(cluster, "PATCH", path, ignored, content_type=MERGE)
    await request(cluster, "POST", MAPS, config_map())


async def test_plain_http_is_told(cluster: Cluster) -> None:
    """As by a server that was started without a certificate."""
    async with webhook_server(is_plain=True) as server:
        await configure(cluster, "validating", "a", server.config())
        answer = await post(cluster, MAPS, config_map())
    expected = "http: server gave HTTP response to HTTPS client"
    assert refusal(answer)["message"].endswith(expected)


async def test_a_service_leads_to_its_endpoints(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """The certificate is that of the service's name."""
    ports = [{"name": "https", "port": 443, "targetPort": 8443}]
    cluster.add("Service", "hook", spec={"ports": ports})
    at = [{"name": "https", "port": hook.port}]
    subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": at}]
    # The server refuses addresses of a loopback in Endpoints, as upstream does.
    body = {"metadata": {"name": "hook", "namespace": "default"}, "subsets": subsets}
    cluster.server.objects.put(ENDPOINTS, ("default", "hook"), body)
    service = {"name": "hook", "namespace": "default", "path": "/hook"}
    config = hook.config(clientConfig={"service": service, "caBundle": bundle()})
    await configure(cluster, "validating", "a", config)
    await request(cluster, "POST", MAPS, config_map())
    assert [each["name"] for each in hook.requests] == ["a"]


async def test_a_webhook_changes_an_object(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """The defaults are filled in again; a validating webhook sees the result."""
    hook.reply = lambda _: patch(
        {"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}},
        {
            "op": "add",
            "path": "/spec/containers/-",
            "value": {"name": "b", "image": "i"},
        },
    )
    rules = [{**EVERYTHING, "resources": ["pods"], "operations": ["CREATE"]}]
    await configure(cluster, "mutating", "a", hook.config(rules=rules))
    pod = {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    made = await request(cluster, "POST", "/api/v1/namespaces/default/pods", pod)
    assert made["metadata"]["labels"] == {"by": "hook"}
    one, other = made["spec"]["containers"]
    assert {**one, "name": "b"} == other
    (review,) = hook.requests
    assert review["object"]["spec"]["restartPolicy"] == "Always"
    assert "uid" not in review["object"]["metadata"]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (
            {"op": "remove", "path": "/data/b"},
            (
                "Internal error occurred: error in remove for path: '/data/b': Unable "
                "to remove nonexistent key: b: missing value"
            ),
        ),
        (
            {"op": "replace", "path": "/data/b", "value": 1},
            (
                "Internal error occurred: replace operation does not apply: doc is "
                "missing key: /data/b: missing value"
            ),
        ),
        (
            {"op": "add", "path": "/spec/b", "value": 1},
            (
                "Internal error occurred: add operation does not apply: doc is "
                'missing path: "/spec/b": missing value'
            ),
        ),
        (
            {"op": "test", "path": "/data/a", "value": "c"},
            "Internal error occurred: testing value /data/a failed: test failed",
        ),
    ],
)
async def test_a_patch_that_does_not_apply_is_told(
    cluster: Cluster, hook: WebhookServer, operation: JSON, expected: str
) -> None:
    """In the words of the library that upstream uses."""
    hook.reply = lambda _: patch(operation)
    await configure(cluster, "mutating", "a", hook.config())
    answer = await post(cluster, MAPS, config_map(data={"a": "b"}))
    assert refusal(answer) == {
        "message": expected,
        "reason": "InternalError",
        "code": 500,
    }


async def test_webhooks_change_in_the_order_of_their_names(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """One that was before the change, and wants to, is asked a second time."""

    def reply(review: JSON) -> JSON:
        data = review["object"].get("data") or {}
        return patch(
            {"op": "add", "path": "/data", "value": {**data, str(len(data)): ""}}
        )

    hook.reply = reply
    again = hook.config(name="one.example.com", reinvocationPolicy="IfNeeded")
    await configure(cluster, "mutating", "b", hook.config(name="two.example.com"))
    await configure(cluster, "mutating", "a", again)
    made = await request(cluster, "POST", MAPS, config_map())
    assert made["data"] == {"0": "", "1": "", "2": ""}
    assert [len(each["object"].get("data", ())) for each in hook.requests] == [0, 1, 2]


async def test_an_object_that_changed_meanwhile_is_reviewed_again(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """Nothing is stored that a webhook has not seen."""
    await request(cluster, "POST", MAPS, config_map(data={"a": "1"}))

    def reply(_: JSON) -> JSON:
        if len(hook.requests) == 1:
            cluster.server.objects.update(CONFIG_MAP, "default", "a", other)
        return {"allowed": True}

    other = config_map(data={"a": "2"})
    hook.reply = reply
    await configure(cluster, "validating", "a", hook.config())
    change = {"data": {"b": "3"}}
    made = await request(cluster, "PATCH", f"{MAPS}/a", change, content_type=MERGE)
    assert made["data"] == {"a": "2", "b": "3"}
    assert [each["oldObject"]["data"] for each in hook.requests] == [
        {"a": "1"},
        {"a": "2"},
    ]


async def test_a_dry_run_asks_no_webhook_with_side_effects(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """Others are told that it is one."""
    await configure(cluster, "validating", "a", hook.config(sideEffects="NoneOnDryRun"))
    await request(cluster, "POST", f"{MAPS}?dryRun=All", config_map())
    assert [each["dryRun"] for each in hook.requests] == [True]
    assert (await call(cluster, "GET", f"{MAPS}/a")).status == 404


@pytest.mark.slow
async def test_a_slow_webhook_fails_in_its_time(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """It holds up nobody else meanwhile."""
    asked, ends = asyncio.Event(), asyncio.Event()

    async def reply(_: JSON) -> JSON:
        asked.set()
        await ends.wait()
        return {"allowed": True}

    hook.reply = reply
    await configure(cluster, "validating", "a", hook.config(timeoutSeconds=1))
    writing = asyncio.create_task(post(cluster, MAPS, config_map()))
    await asked.wait()
    await request(cluster, "POST", "/api/v1/namespaces", {"metadata": {"name": "b"}})
    assert not writing.done()
    answer = await writing
    ends.set()
    url = f"https://127.0.0.1:{hook.port}/hook?timeout=1s"
    assert refusal(answer)["message"] == _failed(
        f'failed to call webhook: Post "{url}": context deadline exceeded'
    )


async def test_an_answer_that_is_too_long_is_a_failure(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """It is not read to its end."""

    async def reply(_: JSON) -> web.StreamResponse:
        return web.Response(body=b"x" * (11 << 20))

    hook.reply = reply
    await configure(cluster, "validating", "a", hook.config())
    answer = await post(cluster, MAPS, config_map())
    assert refusal(answer)["message"] == _failed(
        "failed to call webhook: the answer is longer than 10485760 bytes"
    )


@pytest.mark.parametrize(
    ("changes", "is_asked"),
    [
        ({}, True),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, True),
        ({"objectSelector": {"matchLabels": {"a": "c"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"a": "c"}}}, False),
        (when("object.data.x == 'y'"), True),
        (when("object.data.x == 'z'"), False),
        (when("request.userInfo.username == 'admin'"), True),
        (when("authorizer.requestResource.check('create').allowed()"), True),
        ({"rules": [{**EVERYTHING, "scope": "Cluster"}]}, False),
        ({"rules": [{**EVERYTHING, "operations": ["UPDATE"]}]}, False),
        ({"rules": [{**EVERYTHING, "resources": ["configmaps/*"]}]}, True),
        ({"rules": [{**EVERYTHING, "resources": ["configmaps/status"]}]}, False),
        ({"rules": []}, False),
    ],
)
async def test_a_webhook_is_asked_about_what_it_matches(
    cluster: Cluster, hook: WebhookServer, changes: JSON, is_asked: bool
) -> None:
    """Rules, selectors and conditions."""
    await configure(cluster, "validating", "a", hook.config(**changes))
    given = config_map(data={"x": "y"})
    given["metadata"]["labels"] = {"a": "b"}
    await request(cluster, "POST", MAPS, given)
    assert bool(hook.requests) is is_asked


async def test_a_condition_without_a_value_refuses(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """Unless failurePolicy is Ignore: then the webhook is left out."""
    condition = {"name": "a", "expression": "object.spec.x == 1"}
    config = hook.config(matchConditions=[condition])
    await configure(cluster, "validating", "a", config)
    answer = await post(cluster, MAPS, config_map())
    assert refusal(answer) == {
        "message": "configmaps \"a\" is forbidden: expression 'object.spec.x == 1' "
        "resulted in error: no such key: spec",
        "reason": "Forbidden",
        "code": 403,
    }


async def test_subresources_are_reviewed_with_their_own_kinds(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """A Scale, and an Eviction."""
    names = ["deployments/scale", "pods/eviction", "deployments/status"]
    rules = [{**EVERYTHING, "resources": names}]
    container = {"name": "c", "image": "i"}
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    cluster.add(
        "Deployment", "a", "apps/v1", spec={"selector": labels, "template": template}
    )
    cluster.add("Pod", "a", spec={"containers": [container]})
    await configure(cluster, "validating", "a", hook.config(rules=rules))
    path = "/apis/apps/v1/namespaces/default/deployments/a"
    change = {"spec": {"replicas": 3}}
    await request(cluster, "PATCH", f"{path}/scale", change, content_type=MERGE)
    await request(
        cluster, "PATCH", f"{path}/status", {"status": {}}, content_type=MERGE
    )
    eviction = {"metadata": {"name": "a"}}
    await request(
        cluster, "POST", "/api/v1/namespaces/default/pods/a/eviction", eviction
    )
    seen = [
        (
            each["operation"],
            each["subResource"],
            each["kind"]["kind"],
            each["object"]["kind"],
            each["object"].get("spec", {}).get("replicas"),
        )
        for each in hook.requests
    ]
    assert seen[0] == ("UPDATE", "scale", "Scale", "Scale", 3)
    assert seen[-1] == ("CREATE", "eviction", "Eviction", "Eviction", None)


async def test_configurations_are_exempt_from_webhooks(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """A webhook that refuses everything can be removed."""
    hook.reply = lambda _: {"allowed": False}
    await configure(cluster, "validating", "a", hook.config(rules=[EVERYTHING]))
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/a"
    assert (await post(cluster, MAPS, config_map())).status == 400
    await request(cluster, "DELETE", path)
    await request(cluster, "POST", MAPS, config_map())


async def test_a_connection_to_a_pod_is_reviewed(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """Before this server says that it cannot be made."""
    cluster.add("Pod", "a", spec={"containers": [{"name": "c", "image": "i"}]})
    rules = [{**EVERYTHING, "operations": ["CONNECT"], "resources": ["pods/exec"]}]
    hook.reply = lambda review: {"allowed": review["name"] == "b"}
    await configure(cluster, "validating", "a", hook.config(rules=rules))
    path = "/api/v1/namespaces/default/pods"
    query = "command=ls&command=-l&stdin=true&tty=false&container=c"
    for method in ("GET", "POST"):
        answer = await call(cluster, method, f"{path}/a/exec?{query}")
        assert answer.status == 400, answer.body
    assert (await call(cluster, "POST", f"{path}/b/exec")).status == 501
    first = hook.requests[0]
    assert (first["operation"], first["kind"]["kind"]) == ("CONNECT", "PodExecOptions")
    assert first["object"] == {
        "kind": "PodExecOptions",
        "apiVersion": "v1",
        "command": ["ls", "-l"],
        "stdin": True,
        "tty": False,
        "container": "c",
    }


async def test_a_generated_name_is_that_of_the_review(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """Mutating webhooks see none yet."""
    rules = [{**EVERYTHING, "resources": ["configmaps"]}]
    mutating = hook.config(name="first.example.com", rules=rules)
    await configure(cluster, "mutating", "a", mutating)
    await configure(cluster, "validating", "a", hook.config())
    made = await request(cluster, "POST", MAPS, {"metadata": {"generateName": "a-"}})
    seen = [(each.get("name"), each["object"]["metadata"]) for each in hook.requests]
    assert [name for name, _ in seen] == [None, made["metadata"]["name"]]
    assert "uid" not in seen[0][1]
    assert seen[1][1]["uid"] == made["metadata"]["uid"]


async def test_an_object_cannot_be_moved_to_another_namespace(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """By a webhook, as little as by a client."""
    move = {"op": "add", "path": "/metadata/namespace", "value": "kube-system"}
    hook.reply = lambda _: patch(move)
    await configure(cluster, "mutating", "a", hook.config())
    answer = await post(cluster, MAPS, config_map())
    message = (
        "the namespace of the provided object does not match the namespace sent on the "
        "request"
    )
    expected = {"message": message, "reason": "BadRequest", "code": 400}
    assert refusal(answer) == expected


async def test_another_version_is_converted(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """If the rules name one version, and clients write another one."""
    v1 = {**EVERYTHING, "resources": ["*"], "apiVersions": ["v1"]}
    rules = [{**v1, "apiGroups": ["autoscaling"]}]
    hook.reply = lambda _: patch(
        {"op": "add", "path": "/spec/targetCPUUtilizationPercentage", "value": 70}
    )
    await configure(cluster, "mutating", "a", hook.config(rules=rules))
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3}
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    made = await request(
        cluster, "POST", path, {"metadata": {"name": "a"}, "spec": spec}
    )
    (review,) = hook.requests
    versions = (review["kind"]["version"], review["requestKind"]["version"])
    assert (versions, review["object"]["apiVersion"]) == (
        ("v1", "v2"),
        "autoscaling/v1",
    )
    (metric,) = made["spec"]["metrics"]
    assert metric["resource"] == {
        "name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 70},
    }


@pytest.mark.parametrize(
    "kind", [SERVICE, POD, JOB, SIGNING_REQUEST], ids=lambda kind: kind.plural
)
async def test_what_the_server_fills_in_is_that_of_the_review(
    cluster: Cluster, hook: WebhookServer, kind: Kind
) -> None:
    """Addresses, uids and times are those of the review: it is asked once."""
    rules = [{**EVERYTHING, "resources": [kind.plural]}]
    await configure(cluster, "validating", "a", hook.config(rules=rules))
    root = f"/apis/{kind.group}/v1" if kind.group else "/api/v1"
    scope = "/namespaces/default" if kind.namespaced else ""
    made = await request(cluster, "POST", f"{root}{scope}/{kind.plural}", minimal(kind))
    made["metadata"].pop("resourceVersion")
    (review,) = hook.requests
    assert review["object"] == made
