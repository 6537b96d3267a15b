"""Mutating webhooks change objects as upstream lets them."""

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.admission.webhook_server import (
    EVERYTHING,
    MAPS,
    WebhookServer,
    config_map,
    configure,
    patch,
    post,
    refusal,
)
from tests.devcluster.registry.apiextensions.test_definitions import (
    define,
    spec,
    version,
)
from tests.devcluster.requests import send


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
    made = await send(cluster, "POST", "/api/v1/namespaces/default/pods", pod)
    assert made["metadata"]["labels"] == {"by": "hook"}
    one, other = made["spec"]["containers"]
    assert {**one, "name": "b"} == other
    (review,) = hook.requests
    assert review["object"]["spec"]["restartPolicy"] == "Always"
    assert "uid" not in review["object"]["metadata"]


async def test_webhooks_change_in_the_order_of_their_names(
    cluster: Cluster, hook: WebhookServer
) -> None:

    def reply(review: JSON) -> JSON:
        data = review["object"].get("data") or {}
        return patch(
            {"op": "add", "path": "/data", "value": {**data, str(len(data)): ""}}
        )

    hook.reply = reply
    again = hook.config(name="one.example.com", reinvocationPolicy="IfNeeded")
    await configure(cluster, "mutating", "b", hook.config(name="two.example.com"))
    await configure(cluster, "mutating", "a", again)
    made = await send(cluster, "POST", MAPS, config_map())
    assert made["data"] == {"0": "", "1": "", "2": ""}
    assert [len(each["object"].get("data", ())) for each in hook.requests] == [0, 1, 2]


async def test_a_generated_name_is_that_of_the_review(
    cluster: Cluster, hook: WebhookServer
) -> None:
    rules = [{**EVERYTHING, "resources": ["configmaps"]}]
    mutating = hook.config(name="first.example.com", rules=rules)
    await configure(cluster, "mutating", "a", mutating)
    await configure(cluster, "validating", "a", hook.config())
    made = await send(cluster, "POST", MAPS, {"metadata": {"generateName": "a-"}})
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
    scaling = {"scaleTargetRef": target, "maxReplicas": 3}
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    made = await send(
        cluster, "POST", path, {"metadata": {"name": "a"}, "spec": scaling}
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


async def test_a_custom_resource_is_changed_in_another_version(
    cluster: Cluster, hook: WebhookServer
) -> None:
    text = {"type": "string"}
    fields = {"a": text, "b": {**text, "default": "x"}}
    inner = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"spec": inner}}
    versions = [
        {**version(name, schema={"openAPIV3Schema": schema}), "storage": name == "v2"}
        for name in ("v1", "v2")
    ]
    await define(cluster, spec(*versions))
    rule = {**EVERYTHING, "apiGroups": ["example.com"], "apiVersions": ["v1"]}
    hook.reply = lambda _: patch(
        {"op": "add", "path": "/spec/unknown", "value": 1},
        {"op": "add", "path": "/spec/a", "value": "y"},
    )
    await configure(cluster, "mutating", "a", hook.config(rules=[rule]))
    path = "/apis/example.com/v2/namespaces/default/widgets"
    head = {"apiVersion": "example.com/v2", "kind": "Widget"}
    made = await send(
        cluster, "POST", path, {**head, "metadata": {"name": "a"}, "spec": {}}
    )
    (review,) = hook.requests
    assert review["object"]["apiVersion"] == "example.com/v1"
    assert made["apiVersion"] == "example.com/v2"
    assert made["spec"] == {"a": "y", "b": "x"}
