"""Conversion webhooks that fail, and what a real API server says then."""

from collections.abc import Callable
from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.patches import merge_patch
from tests.clusters import Cluster
from tests.devcluster.admission.webhook_server import WebhookServer
from tests.devcluster.registry.apiextensions.test_conversion_webhooks import (
    PATH,
    conversion,
    make,
    path,
    reply,
    send,
    widgets,
)
from tests.devcluster.registry.apiextensions.test_definitions import (
    conditions,
    define,
)
from tests.devcluster.requests import MERGE
from tests.devcluster.rows import rows

WHAT = "conversion webhook for example.com/v1, Kind=Widget"


def changed(metadata: JSON | None = None, **review: Any) -> Callable[[JSON], JSON]:
    """Return a reply with changes of the review, and of its objects' metadata."""

    def answer(request: JSON) -> JSON:
        found = reply(request)
        for each in found["response"]["convertedObjects"]:
            each["metadata"] = merge_patch(each["metadata"], metadata or {})
        merged: JSON = merge_patch(found, review)
        return merged

    return answer


@rows("changes", "message")
async def test_a_wrong_answer_is_refused(
    cluster: Cluster, hook: WebhookServer, changes: JSON, message: str
) -> None:
    await define(cluster, widgets(hook))
    made = await make(cluster, "v1", "a", address="h:1")
    hook.reply = changed(**changes)
    status, body = await send(cluster, "GET", path("v2", "/a"))
    expected = message.replace("$asked", hook.requests[-1]["uid"])
    expected = expected.replace("$uid", made["metadata"]["uid"])
    assert (status, body["message"]) == (500, expected.replace("$what", WHAT))
    assert "reason" not in body


async def test_wrong_labels_are_named(cluster: Cluster, hook: WebhookServer) -> None:
    """Labels that the webhook changes must be valid."""
    await define(cluster, widgets(hook))
    await make(cluster, "v1", "a", address="h:1")
    hook.reply = changed({"labels": {"host": None, "a": "!"}})
    _, body = await send(cluster, "GET", path("v2", "/a"))
    begin = f'{WHAT} returned invalid metadata: metadata.labels: Invalid value: "!"'
    assert body["message"].startswith(begin)


async def test_other_metadata_is_restored(
    cluster: Cluster, hook: WebhookServer
) -> None:
    await define(cluster, widgets(hook))
    made = await make(cluster, "v1", "a", address="h:1")
    hook.reply = changed(
        {
            "labels": {"host": None, "a": "b"},
            "generation": 9,
            "finalizers": ["x.io/y"],
        }
    )
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
