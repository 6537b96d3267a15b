"""Kinds that come and go, and how the server tells of them."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.discovery.resources import ServedResource, discover
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import Cluster
from tests.controllers.custom_resources import DEFINITIONS, definition

pytestmark = pytest.mark.looptime


async def define(cluster: Cluster, **spec: Any) -> JSON:
    crd = definition()
    crd["spec"].update(spec)
    body = msgspec.json.encode(crd)
    await cluster.client.create_json(DEFINITIONS, "", body)
    return await cluster.client.get_json(DEFINITIONS, "", "widgets.example.com")


# Discovery


def without_discovery_of_everything(cluster: Cluster) -> Any:
    """Return a transport to a server that knows no aggregated discovery."""

    class Old:
        host = "test"

        async def request(self, request: Request) -> Response:
            plain = Request(request.method, request.path)
            return await cluster.transport.request(plain)

    return Old()


async def test_discovery_in_two_requests_tells_the_same_as_one_by_one(
    cluster: Cluster,
) -> None:
    await define(cluster)
    new = await discover(cluster.client)
    old_client = type(cluster.client)(
        without_discovery_of_everything(cluster), cluster.clock
    )
    old = await discover(old_client)
    assert (new.failures, old.failures) == ({}, {})
    assert set(new.resources) == set(old.resources)
    assert (
        ServedResource(
            "apps",
            "v1",
            "deployments",
            "Deployment",
            namespaced=True,
            verbs=frozenset(
                (
                    "create",
                    "delete",
                    "deletecollection",
                    "get",
                    "list",
                    "patch",
                    "update",
                    "watch",
                )
            ),
            subresources=frozenset(("scale", "status")),
            singular="deployment",
            short_names=("deploy",),
        )
        in new.resources
    )


async def test_a_stale_group_version_counts_as_not_discovered(cluster: Cluster) -> None:

    class Stale:
        host = "test"

        async def request(self, request: Request) -> Response:
            answer = await cluster.transport.request(request)
            body = msgspec.json.decode(answer.body)
            for group in body["items"]:
                if group["metadata"].get("name") == "policy":
                    group["versions"][0]["freshness"] = "Stale"
            return Response(answer.status, answer.headers, msgspec.json.encode(body))

    client = type(cluster.client)(Stale(), cluster.clock)  # type: ignore[arg-type]
    found = await discover(client)
    assert found.problem() == (
        "unable to retrieve the complete list of server APIs: policy/v1: stale "
        "GroupVersion discovery: policy/v1"
    )
    assert "policy" not in {each.group for each in found.resources}
    assert "apps" in {each.group for each in found.resources}
