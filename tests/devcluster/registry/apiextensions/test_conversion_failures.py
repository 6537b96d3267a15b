"""Conversion webhooks that fail, and what a real API server says then."""

from collections.abc import Callable
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.admission.webhook_server import WebhookServer
from tests.devcluster.registry.apiextensions.test_conversion_webhooks import (
    MERGE,
    PATH,
    conversion,
    make,
    path,
    reply,
    review_of,
    send,
    version,
    widgets,
)
from tests.devcluster.registry.apiextensions.test_definitions import (
    conditions,
    define,
    spec,
)

WHAT = "conversion webhook for example.com/v1, Kind=Widget"


def changed(**metadata: Any) -> Callable[[JSON], JSON]:
    """Return a reply whose objects have other metadata."""

    def answer(request: JSON) -> JSON:
        found = reply(request)
        for each in found["response"]["convertedObjects"]:
            each["metadata"] = {**each["metadata"], **metadata}
        return found

    return answer


def objects(*found: Any) -> Callable[[JSON], JSON]:
    return lambda request: review_of(request, list(found))


def without_metadata(request: JSON) -> JSON:
    """Return converted objects that have a name alone outside of metadata."""
    answer = reply(request)
    for each in answer["response"]["convertedObjects"]:
        del each["metadata"]
    return answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            lambda request: review_of(request, [], result={"status": "Failed"}),
            f"{WHAT} failed: response.result.status was 'Failed', not 'Success'",
        ),
        (
            lambda request: review_of(
                request, [], result={"status": "Failed", "message": "no way"}
            ),
            f"{WHAT} failed: no way",
        ),
        (
            lambda request: review_of(request, [], uid="x"),
            f'{WHAT} failed: expected response.uid="UID", got "x"',
        ),
        (
            lambda _: {"kind": "Other", "apiVersion": "v1"},
            (
                f"{WHAT} failed: expected webhook response of apiextensions.k8s.io/v1, "
                "Kind=ConversionReview, got /v1, Kind=Other"
            ),
        ),
        (
            lambda _: {
                "kind": "ConversionReview",
                "apiVersion": "apiextensions.k8s.io/v1",
            },
            f"{WHAT} failed: no response provided",
        ),
        (objects(), f"{WHAT} returned 0 objects, expected 1"),
        (objects({"a": 1}), "Object 'Kind' is missing in '{\"a\":1}'"),
        (
            objects({"apiVersion": "example.com/v1", "kind": "Widget"}),
            (
                f"{WHAT} returned invalid object at index 0: invalid groupVersion "
                "(expected example.com/v2, received example.com/v1)"
            ),
        ),
        (
            objects({"apiVersion": "example.com/v2", "kind": "Gadget"}),
            (
                f"{WHAT} returned invalid object at index 0: invalid kind (expected "
                "Widget, received Gadget)"
            ),
        ),
        (
            changed(name="b"),
            f"{WHAT} returned invalid object: must have the same name: a != b",
        ),
        (
            changed(namespace="other"),
            (
                f"{WHAT} returned invalid object: must have the same namespace: "
                "default != other"
            ),
        ),
        (
            changed(uid="other"),
            f"{WHAT} returned invalid object: must have the same UID: OWN != other",
        ),
        (
            changed(labels=["a"]),
            (
                f"{WHAT} returned invalid metadata: invalid metadata.labels of type "
                "[]interface {} in converted object"
            ),
        ),
        (
            changed(labels={"a": 1}),
            (
                f"{WHAT} returned invalid metadata: metadata.labels[a] must be a "
                "string, but is int64 in converted object"
            ),
        ),
        (
            without_metadata,
            f"{WHAT} returned invalid object: must have the same name: a != ",
        ),
    ],
)
async def test_a_wrong_answer_is_refused(
    cluster: Cluster, hook: WebhookServer, answer: Callable[[JSON], JSON], message: str
) -> None:
    await define(cluster, widgets(hook))
    made = await make(cluster, "v1", "a", address="h:1")
    hook.reply = answer
    status, body = await send(cluster, "GET", path("v2", "/a"))
    message = message.replace("UID", hook.requests[-1]["uid"], "UID:" not in message)
    assert (status, body["message"]) == (
        500,
        message.replace("OWN", made["metadata"]["uid"]),
    )
    assert "reason" not in body


async def test_wrong_labels_are_named(cluster: Cluster, hook: WebhookServer) -> None:
    """Labels that the webhook changes must be valid."""
    await define(cluster, widgets(hook))
    await make(cluster, "v1", "a", address="h:1")
    hook.reply = changed(labels={"a": "!"})
    _, body = await send(cluster, "GET", path("v2", "/a"))
    begin = f'{WHAT} returned invalid metadata: metadata.labels: Invalid value: "!"'
    assert body["message"].startswith(begin)


async def test_other_metadata_is_restored(
    cluster: Cluster, hook: WebhookServer
) -> None:
    await define(cluster, widgets(hook))
    made = await make(cluster, "v1", "a", address="h:1")
    hook.reply = changed(labels={"a": "b"}, generation=9, finalizers=["x.io/y"])
    _, found = await send(cluster, "GET", path("v2", "/a"))
    assert found["metadata"] == {**made["metadata"], "labels": {"a": "b"}}


async def test_a_list_names_the_place_of_a_wrong_object(
    cluster: Cluster, hook: WebhookServer
) -> None:
    await define(cluster, widgets(hook))
    for name in ("a", "b"):
        await make(cluster, "v1", name, address="h:1")

    def answer(request: JSON) -> JSON:
        found = reply(request)
        found["response"]["convertedObjects"][1]["kind"] = "Gadget"
        return found

    hook.reply = answer
    status, body = await send(cluster, "GET", path("v2"))
    assert (status, body["message"]) == (
        500,
        (
            "conversion webhook for example.com/v2, Kind=WidgetList returned invalid "
            "converted object at index 1: invalid kind (expected Widget, received "
            "Gadget)"
        ),
    )


async def test_a_webhook_that_does_not_answer_fails_the_request(
    cluster: Cluster, hook: WebhookServer
) -> None:
    address = {"url": "https://127.0.0.1:1/convert"}
    both = (version("v1", storage=True), version("v2"))
    await define(cluster, spec(*both, conversion=conversion(hook, **address)))
    await make(cluster, "v1", "a", address="h:1")
    why = "dial tcp 127.0.0.1:1: connect: connection refused"
    url = "https://127.0.0.1:1/convert?timeout=30s"
    status, body = await send(cluster, "GET", path("v2", "/a"))
    assert (status, body["message"]) == (500, f'{WHAT} failed: Post "{url}": {why}')
    new = {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "b"}}
    status, body = await send(cluster, "POST", path("v2"), new)
    what = WHAT.replace("v1", "v2")
    assert (status, body["message"]) == (500, f'{what} failed: Post "{url}": {why}')
    assert len(cluster.server.storage.collection("widgets.example.com")) == 1


async def test_a_webhook_may_stand_behind_a_service(
    cluster: Cluster, hook: WebhookServer
) -> None:
    service = {"name": "hook", "namespace": "default", "path": "/convert"}
    both = (version("v1", storage=True), version("v2"))
    given = spec(*both, conversion=conversion(hook, service=service))
    await define(cluster, given)
    await make(cluster, "v1", "a", address="h:1")
    url = "https://hook.default.svc:443/convert?timeout=30s"
    _, body = await send(cluster, "GET", path("v2", "/a"))
    problem = 'service "hook" not found'
    assert body["message"] == f'{WHAT} failed: Post "{url}": {problem}'
    notes = {"devcluster/forward": f"443=127.0.0.1:{hook.port}"}
    body = {
        "metadata": {"name": "hook", "annotations": notes},
        "spec": {"ports": [{"port": 443}]},
    }
    await send(cluster, "POST", "/api/v1/namespaces/default/services", body)
    status, found = await send(cluster, "GET", path("v2", "/a"))
    assert (status, found["spec"]) == (200, {"host": "h", "port": "1"})


async def test_a_wrong_authority_keeps_a_definition_from_being_established(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """A right one establishes it, and cannot be replaced by a wrong one."""
    wrong = conversion(hook, url="https://127.0.0.1:1/", caBundle="d3Jvbmc=")
    given = {**widgets(hook), "conversion": wrong}
    assert (await define(cluster, given))[0] == 201
    assert (await conditions(cluster, "widgets"))["Established"] == (
        "False",
        "InvalidCABundle",
        "The conversion webhook CABundle is invalid",
    )
    right = {"spec": {"conversion": conversion(hook)}}
    assert (await send(cluster, "PATCH", PATH, right, content_type=MERGE))[0] == 200
    assert (await conditions(cluster, "widgets"))["Established"][0] == "True"
    change = {"spec": {"conversion": wrong}}
    status, body = await send(cluster, "PATCH", PATH, change, content_type=MERGE)
    assert (status, body["message"]) == (
        422,
        (
            'CustomResourceDefinition.apiextensions.k8s.io "widgets.example.com" is '
            "invalid: spec.conversion.webhookClientConfig.caBundle: Invalid value: "
            '"d3Jvbmc=": unable to load root certificates: unable to parse bytes as '
            "PEM block"
        ),
    )


async def test_a_definition_with_objects_can_be_deleted_without_its_webhook(
    cluster: Cluster, hook: WebhookServer
) -> None:
    await define(cluster, widgets(hook))
    await make(cluster, "v2", "a", host="h", port="1")
    hook.reply = objects()
    assert (await send(cluster, "DELETE", PATH))[0] == 200
    assert (await send(cluster, "GET", PATH))[0] == 404
