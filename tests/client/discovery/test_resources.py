"""Discovery reads null as Go does, and each group by itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from controller_manager.client.discovery.resources import (
    Discovery,
    ServedResource,
    discover,
    served_resources,
)
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import ProtocolError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import LoopClock
from tests.clusters import EPOCH
from tests.streams import FakeTransport

pytestmark = pytest.mark.looptime

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_NULL_VERBS = Path(__file__).parents[2] / "data" / "discovery-null-verbs.json"
_ALL_VERBS = frozenset(
    ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
)
_DEPLOYMENTS = ServedResource(
    "apps", "v1", "deployments", "Deployment", namespaced=True, verbs=_ALL_VERBS
)


@dataclass
class _Served(FakeTransport):
    documents: Mapping[str, Any]
    media: str = _AGGREGATED
    paths: list[str] = field(default_factory=list)

    async def request(self, request: Request) -> Response:
        self.paths.append(request.path)
        if request.path not in self.documents:
            return Response(404, {}, b'{"kind":"Status","code":404}')
        body = json.dumps(self.documents[request.path]).encode()
        return Response(200, {"content-type": self.media}, body)


def _client(documents: Mapping[str, Any], media: str = _AGGREGATED) -> Client:
    return Client(_Served(documents, media), LoopClock(EPOCH))


async def _discovered(*groups: Any) -> Discovery:
    documents = {"/api": {"items": []}, "/apis": {"items": groups}}
    return await discover(_client(documents))


async def _listed(documents: Mapping[str, Any]) -> Discovery:
    """Return what a server without aggregated discovery serves."""
    return await discover(_client(documents, "application/json"))


def _group(name: str, *versions: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "versions": list(versions)}


def _version(version: str, *resources: Any) -> dict[str, Any]:
    return {"version": version, "freshness": "Current", "resources": list(resources)}


def _resource(plural: str, kind: str, verbs: Any) -> dict[str, Any]:
    kind_of = {"group": "", "version": "", "kind": kind}
    scope = "Namespaced"
    return {"resource": plural, "responseKind": kind_of, "scope": scope, "verbs": verbs}


_APPS = _group("apps", _version("v1", _resource("deployments", "Deployment", ["get"])))
_READ = (
    ServedResource(
        "apps",
        "v1",
        "deployments",
        "Deployment",
        namespaced=True,
        verbs=frozenset(("get",)),
    ),
)


async def test_a_resource_without_verbs_has_only_its_subresources() -> None:
    """An aggregator makes up such a parent of subresources."""
    groups = json.loads(_NULL_VERBS.read_text())["items"]
    made_up = ServedResource(
        "sub.example.com",
        "v1",
        "machines",
        "",
        namespaced=True,
        verbs=frozenset(),
        subresources=frozenset(("start",)),
    )
    deployments = replace(_DEPLOYMENTS, singular="deployment")
    assert await _discovered(*groups) == Discovery((made_up, deployments))


@pytest.mark.parametrize(
    "empty",
    [
        None,
        {"metadata": None, "versions": None},
        {"metadata": {"name": None}, "versions": [None]},
        _group("a.example.com", {"version": None, "freshness": None}),
        _group("a.example.com", {"version": "v1", "resources": None}),
        _group("a.example.com", _version("v1", None)),
        _group("a.example.com", _version("v1", {"resource": None, "verbs": ["list"]})),
    ],
)
async def test_null_is_empty_in_aggregated_discovery(empty: Any) -> None:
    """In lists, too. A resource without a name cannot be requested, so it is none."""
    assert await _discovered(empty, _APPS) == Discovery(_READ)


async def test_null_is_empty_inside_of_a_resource() -> None:
    """Every field of a resource may be null but its name."""
    fields = ("responseKind", "scope", "singularResource", "verbs", "subresources")
    odd = {"resource": "odds", **dict.fromkeys(fields)}
    listed = {"resource": "lists", "verbs": [None, "get"], "subresources": [None]}
    found = await _discovered(_group("a.example.com", _version("v1", odd, listed)))
    assert found == Discovery(
        (
            ServedResource(
                "a.example.com", "v1", "odds", "", namespaced=False, verbs=frozenset()
            ),
            ServedResource(
                "a.example.com",
                "v1",
                "lists",
                "",
                namespaced=False,
                verbs=frozenset(("", "get")),
                subresources=frozenset(("",)),
            ),
        )
    )


@pytest.mark.parametrize(
    ("broken", "failing"),
    [
        ({"metadata": {"name": "b.example.com"}, "versions": "v1"}, "b.example.com/*"),
        (_group("b.example.com", 5), "b.example.com/*"),
        (_group("b.example.com", {"version": ["v1"]}), "b.example.com/*"),
        (_group("b.example.com", _version("v1", 5)), "b.example.com/v1"),
        (
            _group("b.example.com", _version("v1", _resource("bs", "B", "get"))),
            "b.example.com/v1",
        ),
    ],
)
async def test_an_unreadable_group_fails_alone(broken: Any, failing: str) -> None:
    found = await _discovered(broken, _APPS)
    assert found.resources == _READ
    assert list(found.failures) == [failing]
    assert found.problem().startswith(
        "unable to retrieve the complete list of server APIs: "
        f"{failing}: the discovery document cannot be read: "
    )
    assert found.is_unread("b.example.com/v1")
    assert not found.is_unread("v1")
    assert not found.is_unread("apps/v1")


async def test_a_version_that_cannot_be_read_fails_alone() -> None:
    good = _version("v1", _resource("as", "A", ["get"]))
    bad = _version("v2", _resource("as", "A", {}))
    found = await _discovered(_group("a.example.com", bad, good))
    (resource,) = found.resources
    assert (resource.api_version, resource.is_preferred) == ("a.example.com/v1", True)
    assert found.is_unread("a.example.com/v2")
    assert not found.is_unread("a.example.com/v1")


@pytest.mark.parametrize("items", [17, [17], [{"metadata": {"name": 17}}]])
async def test_discovery_fails_without_the_name_of_a_group(items: Any) -> None:
    """Any group may be the one that is missing."""
    documents = {"/api": {"items": None}, "/apis": {"items": items}}
    with pytest.raises(ProtocolError, match="discovery cannot be read"):
        await discover(_client(documents))


async def test_null_is_empty_in_lists_of_groups_and_resources() -> None:
    """A server without aggregated discovery answers them."""
    groups = [
        None,
        {"name": "empty.example.com", "versions": None, "preferredVersion": None},
        {"name": "a.example.com", "versions": [{"version": "v1"}]},
        {"name": "apps", "versions": [{"version": "v1"}]},
    ]
    found = await _listed(
        {
            "/api": {"versions": None},
            "/apis": {"groups": groups},
            "/apis/a.example.com/v1": {
                "resources": [
                    None,
                    {"name": "as/start", "kind": None, "verbs": ["update"]},
                    {"name": "odds", "namespaced": None, "verbs": None},
                ]
            },
            "/apis/apps/v1": {
                "resources": [
                    {
                        "name": "deployments",
                        "kind": "Deployment",
                        "namespaced": True,
                        "verbs": ["get"],
                    }
                ]
            },
        }
    )
    odd = ServedResource(
        "a.example.com", "v1", "odds", "", namespaced=False, verbs=frozenset()
    )
    assert found == Discovery((odd, *_READ))


async def test_a_group_that_cannot_be_read_fails_alone_without_aggregation() -> None:
    groups = [
        {"name": "b.example.com", "versions": 5},
        {"name": "c.example.com", "versions": [{"version": "v1"}]},
    ]
    found = await _listed(
        {
            "/api": {"versions": ["v1"]},
            "/apis": {"groups": groups},
            "/api/v1": {"resources": [{"name": "pods", "kind": "Pod"}]},
            "/apis/c.example.com/v1": {"resources": [{"name": "cs", "verbs": "get"}]},
        }
    )
    assert [each.group_resource for each in found.resources] == ["pods"]
    assert list(found.failures) == ["b.example.com/*", "c.example.com/v1"]


async def test_the_names_of_served_resources_may_have_null_verbs() -> None:
    document = {"resources": [{"name": "as", "verbs": None}, {"name": "as/status"}]}
    client = _client({"/apis/a.example.com/v1": document}, "application/json")
    found = await served_resources(client, "a.example.com/v1")
    assert found == frozenset(("as", "as/status"))
