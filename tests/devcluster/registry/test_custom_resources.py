"""Kinds that come and go, and how the server tells of them."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.discovery.resources import ServedResource, discover
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.errors import APIError, Invalid, NotFound
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import TOKEN, Cluster
from tests.controllers.custom_resources import (
    ANYTHING,
    DEFINITIONS,
    WIDGETS,
    definition,
)

pytestmark = pytest.mark.looptime

JSON_TYPE = "application/json"
PATH = "/apis/example.com/v1/namespaces/default/widgets"


async def call(
    cluster: Cluster, method: str, path: str, body: Any = None, media: str = JSON_TYPE
) -> Response:
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": media}
    encoded = None if body is None else msgspec.json.encode(body)
    return await cluster.transport.request(
        Request(method, path, headers=headers, body=encoded)
    )


async def define(cluster: Cluster, **spec: Any) -> JSON:
    crd = definition()
    crd["spec"].update(spec)
    body = msgspec.json.encode(crd)
    await cluster.client.create_json(DEFINITIONS, "", body)
    return await cluster.client.get_json(DEFINITIONS, "", "widgets.example.com")


def widget(name: str, api_version: str = "example.com/v1", **metadata: Any) -> JSON:
    return {
        "apiVersion": api_version,
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": {"anything": [1, {"goes": True}]},
    }


async def test_a_definition_is_established_and_its_kind_served(
    cluster: Cluster,
) -> None:
    defined = await define(cluster)
    conditions = {
        each["type"]: each["status"] for each in defined["status"]["conditions"]
    }
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    answer = await call(cluster, "POST", PATH, widget("w"))
    assert answer.status == 201
    stored = msgspec.json.decode(answer.body)
    assert stored["spec"] == widget("w")["spec"]
    assert stored["metadata"]["generation"] == 1


async def test_a_definition_must_be_named_after_its_resource(cluster: Cluster) -> None:
    crd = definition()
    crd["metadata"]["name"] = "gadgets.example.com"
    with pytest.raises(Invalid, match=r'must be spec.names.plural\+"."\+spec.group'):
        await cluster.client.create_json(DEFINITIONS, "", msgspec.json.encode(crd))


async def test_a_definition_takes_its_objects_along(cluster: Cluster) -> None:
    """It goes once the last of them has; then its kind is unknown."""
    await define(cluster)
    for name, finalizers in (("plain", []), ("held", ["example.com/hold"])):
        await call(cluster, "POST", PATH, widget(name, finalizers=finalizers))
    await cluster.client.delete(DEFINITIONS, "", "widgets.example.com")
    left = msgspec.json.decode((await call(cluster, "GET", PATH)).body)["items"]
    assert [each["metadata"]["name"] for each in left] == ["held"]
    assert (await call(cluster, "POST", PATH, widget("late"))).status == 405
    patch = {"metadata": {"finalizers": None}}
    await cluster.client.patch(WIDGETS, "default", "held", patch, PatchType.MERGE)
    with pytest.raises(NotFound):
        await cluster.client.get_json(DEFINITIONS, "", "widgets.example.com")
    assert (await call(cluster, "GET", PATH)).status == 404


async def test_every_served_version_shows_the_same_objects(cluster: Cluster) -> None:
    """Each by its own name; discovery prefers the ripest one."""
    versions: list[JSON] = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1beta1",
            "schema": {"openAPIV3Schema": ANYTHING},
        }
        for name in ("v1beta1", "v1", "v1alpha1")
    ]
    await define(cluster, versions=versions)
    await call(cluster, "POST", PATH, widget("w"))
    shown = [
        msgspec.json.decode(
            (await call(cluster, "GET", PATH.replace("/v1/", f"/{name}/"))).body
        )["items"][0]
        for name in ("v1beta1", "v1alpha1")
    ]
    assert [each["spec"] for each in shown] == [widget("w")["spec"]] * 2
    found = [
        (each.version, each.is_preferred)
        for each in (await discover(cluster.client)).resources
        if each.plural == "widgets"
    ]
    assert found == [("v1", True), ("v1beta1", False), ("v1alpha1", False)]


async def test_custom_resources_take_no_strategic_merge_patch(cluster: Cluster) -> None:
    await define(cluster)
    await call(cluster, "POST", PATH, widget("w"))
    with pytest.raises(APIError) as refusal:
        await cluster.client.patch(
            WIDGETS, "default", "w", {"spec": {}}, PatchType.STRATEGIC
        )
    assert refusal.value.code == 415


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
