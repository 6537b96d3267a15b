"""Definitions with a conversion webhook, which this server does not call."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.storage.state import StorageState, state_of
from controller_manager.devcluster.server.storage.storage import Stored
from tests.clusters import Cluster
from tests.devcluster.kinds.apiextensions.test_definitions import (
    DEFINITIONS,
    conditions,
    define,
    spec,
    version,
)
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
PATH = f"{DEFINITIONS}/widgets.example.com"
WEBHOOK: JSON = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"url": "https://127.0.0.1:9443/convert"},
        "conversionReviewVersions": ["v1"],
    },
}


def needing(others: str, stored: str) -> str:
    """Return the reason for which a definition is refused."""
    return (
        "the development cluster calls no conversion webhook, and objects of "
        f"{others} would need one: let spec.versions serve {stored} alone, with no "
        "other version in status.storedVersions, or set strategy: None if the versions "
        "differ in their apiVersion alone"
    )


def refusal(others: str, stored: str) -> tuple[int, str]:
    """Return the answer to a definition whose objects need a webhook."""
    field = 'spec.conversion.strategy: Invalid value: "Webhook"'
    what = 'CustomResourceDefinition.apiextensions.k8s.io "widgets.example.com"'
    return 422, f"{what} is invalid: {field}: {needing(others, stored)}"


async def change(cluster: Cluster, **fields: Any) -> tuple[int, str]:
    """Change the spec of the definition; return the status and the message."""
    body = msgspec.json.encode({"spec": fields})
    media = "application/merge-patch+json"
    answer = await call(cluster, "PATCH", PATH, body, content_type=media)
    return answer.status, msgspec.json.decode(answer.body).get("message", "")


async def test_a_definition_whose_objects_need_a_webhook_is_refused(
    cluster: Cluster,
) -> None:
    """With the field, and what to do instead; nothing is served unconverted."""
    given = spec(version(), version("v1beta1"), conversion=WEBHOOK)
    status, body = await define(cluster, given)
    assert (status, body["message"]) == refusal("v1beta1", "v1")
    assert cluster.server.catalogue.find("example.com", "v1", "widgets") is None


async def test_a_definition_with_one_version_needs_no_webhook(cluster: Cluster) -> None:
    """Also with others that are not served: a real server never asks the webhook."""
    given = spec(version(), version("v1beta1", served=False), conversion=WEBHOOK)
    assert (await define(cluster, given))[0] == 201
    assert (await conditions(cluster, "widgets"))["Established"][0] == "True"
    path = "/apis/example.com/v1/namespaces/default/widgets"
    made = await call(cluster, "POST", path, b'{"metadata": {"name": "a"}}')
    assert made.status == 201


async def test_a_served_version_that_is_not_the_stored_one_needs_the_webhook(
    cluster: Cluster,
) -> None:
    """Even if it is the only one that is served."""
    given = spec(version(served=False), version("v2"), conversion=WEBHOOK)
    status, body = await define(cluster, given)
    assert (status, body["message"]) == refusal("v2", "v1")


async def test_an_update_cannot_make_a_webhook_necessary(cluster: Cluster) -> None:
    """By its strategy, by a served version, or by another version in storage."""
    await define(cluster, spec(version(), version("v2")))
    assert await change(cluster, conversion=WEBHOOK) == refusal("v2", "v1")
    alone = [version(), version("v2", served=False)]
    assert (await change(cluster, conversion=WEBHOOK, versions=alone))[0] == 200
    both = [version(), version("v2")]
    assert await change(cluster, versions=both) == refusal("v2", "v1")
    moved = [version(served=False, storage=False), version("v2", storage=True)]
    assert await change(cluster, versions=moved) == refusal("v1", "v2")


async def test_a_definition_of_an_earlier_server_is_not_served_until_it_is_mended(
    cluster: Cluster,
) -> None:
    """Its condition says why. It can be mended, and it can be deleted."""
    await define(cluster, spec(version(), version("v2")))
    server = cluster.server
    state = state_of(server.storage)
    ((key, stored),) = state.objects[RESOURCE].items()
    bad = {**stored.obj, "spec": {**stored.obj["spec"], "conversion": WEBHOOK}}
    objects = {**state.objects, RESOURCE: {key: Stored(bad, stored.version)}}
    earlier = StorageState(state.version, objects, state.numbers)
    server.restore(earlier, ends_watches=False)
    established = (await conditions(cluster, "widgets"))["Established"]
    assert established == ("False", "NotConvertible", needing("v2", "v1"))
    assert server.catalogue.find("example.com", "v1", "widgets") is None
    mended = {"strategy": "None", "webhook": None}
    assert (await change(cluster, conversion=mended))[0] == 200
    assert (await conditions(cluster, "widgets"))["Established"][0] == "True"
    server.restore(earlier, ends_watches=False)
    assert (await call(cluster, "DELETE", PATH)).status == 200
    assert (await call(cluster, "GET", PATH)).status == 404
