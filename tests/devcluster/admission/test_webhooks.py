"""The server calls webhooks as upstream does, and obeys their answers."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.registry.batch import JOBS
from controller_manager.devcluster.registry.certificates import SIGNING_REQUESTS
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.core.secrets import (
    CONFIG_MAPS as CONFIG_MAP,
)
from controller_manager.devcluster.registry.core.services import KIND as SERVICE
from tests.clusters import Cluster
from tests.devcluster.admission.webhook_server import (
    EVERYTHING,
    MAPS,
    WebhookServer,
    config_map,
    configure,
    post,
    refusal,
)
from tests.devcluster.registry.minimal import minimal
from tests.devcluster.requests import call, send
from tests.devcluster.rows import rows


def when(expression: str) -> JSON:
    return {"matchConditions": [{"name": "a", "expression": expression}]}


async def test_a_review_has_the_written_object(
    cluster: Cluster, hook: WebhookServer
) -> None:
    await configure(cluster, "validating", "a", hook.config())
    await send(cluster, "POST", f"{MAPS}?fieldManager=me", config_map(data={"a": "b"}))
    (review,) = hook.requests
    stored = await send(cluster, "GET", f"{MAPS}/a")
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
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
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
        await send(cluster, "POST", MAPS, config_map(name))
    change = {"data": {"x": "y"}}
    await send(cluster, "PATCH", f"{MAPS}/a", change)
    await send(cluster, "DELETE", f"{MAPS}/b")
    await send(cluster, "DELETE", MAPS)
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


@rows("status", "expected")
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


async def test_an_object_that_changed_meanwhile_is_reviewed_again(
    cluster: Cluster, hook: WebhookServer
) -> None:
    await send(cluster, "POST", MAPS, config_map(data={"a": "1"}))

    def reply(_: JSON) -> JSON:
        if len(hook.requests) == 1:
            cluster.server.objects.update(CONFIG_MAP, "default", "a", other)
        return {"allowed": True}

    other = config_map(data={"a": "2"})
    hook.reply = reply
    await configure(cluster, "validating", "a", hook.config())
    change = {"data": {"b": "3"}}
    made = await send(cluster, "PATCH", f"{MAPS}/a", change)
    assert made["data"] == {"a": "2", "b": "3"}
    assert [each["oldObject"]["data"] for each in hook.requests] == [
        {"a": "1"},
        {"a": "2"},
    ]


async def test_a_dry_run_asks_no_webhook_with_side_effects(
    cluster: Cluster, hook: WebhookServer
) -> None:
    await configure(cluster, "validating", "a", hook.config(sideEffects="NoneOnDryRun"))
    await send(cluster, "POST", f"{MAPS}?dryRun=All", config_map())
    assert [each["dryRun"] for each in hook.requests] == [True]
    assert (await call(cluster, "GET", f"{MAPS}/a")).status == 404


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
async def test_a_webhook_is_called_only_for_writes_that_it_matches(
    cluster: Cluster, hook: WebhookServer, changes: JSON, is_asked: bool
) -> None:
    await configure(cluster, "validating", "a", hook.config(**changes))
    given = config_map(data={"x": "y"})
    given["metadata"]["labels"] = {"a": "b"}
    await send(cluster, "POST", MAPS, given)
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
    await send(cluster, "PATCH", f"{path}/scale", change)
    await send(cluster, "PATCH", f"{path}/status", {"status": {}})
    eviction = {"metadata": {"name": "a"}}
    await send(cluster, "POST", "/api/v1/namespaces/default/pods/a/eviction", eviction)
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
    hook.reply = lambda _: {"allowed": False}
    await configure(cluster, "validating", "a", hook.config(rules=[EVERYTHING]))
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/a"
    assert (await post(cluster, MAPS, config_map())).status == 400
    await send(cluster, "DELETE", path)
    await send(cluster, "POST", MAPS, config_map())


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
    async with cluster.nodes(count=1):
        refused = await call(cluster, "POST", f"{path}/a/exec")
        missing = await call(cluster, "POST", f"{path}/b/exec")
        assert (refused.status, missing.status) == (400, 404)
        assert [each["name"] for each in hook.requests] == ["a", "a", "b", "a", "b"]
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


@pytest.mark.parametrize(
    "kind", [SERVICE, POD, JOBS, SIGNING_REQUESTS], ids=lambda kind: kind.plural
)
async def test_what_the_server_fills_in_is_that_of_the_review(
    cluster: Cluster, hook: WebhookServer, kind: Kind
) -> None:
    """Addresses, uids and times are those of the review: it is asked once."""
    rules = [{**EVERYTHING, "resources": [kind.plural]}]
    await configure(cluster, "validating", "a", hook.config(rules=rules))
    root = f"/apis/{kind.group}/v1" if kind.group else "/api/v1"
    scope = "/namespaces/default" if kind.namespaced else ""
    made = await send(cluster, "POST", f"{root}{scope}/{kind.plural}", minimal(kind))
    made["metadata"].pop("resourceVersion")
    (review,) = hook.requests
    assert review["object"] == made


async def test_namespaces_are_selected_by_their_own_labels(
    cluster: Cluster, hook: WebhookServer
) -> None:
    rules = [{**EVERYTHING, "resources": ["namespaces"]}]
    selector = {"matchLabels": {"is": "watched"}}
    config = hook.config(rules=rules, namespaceSelector=selector)
    await configure(cluster, "validating", "a", config)
    path = "/api/v1/namespaces"
    labels = {"is": "watched"}
    await send(cluster, "POST", path, {"metadata": {"name": "b", "labels": labels}})
    await send(cluster, "POST", path, {"metadata": {"name": "c"}})
    for name in ("b", "c"):
        await send(cluster, "DELETE", f"{path}/{name}")
    parts = ("operation", "name", "namespace")
    seen = [tuple(each[part] for part in parts) for each in hook.requests]
    assert seen == [("CREATE", "b", "b"), ("DELETE", "b", "b")]
