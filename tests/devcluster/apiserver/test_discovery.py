"""Discovery answers as a real API server does, in each of its forms."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Response
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.registry import find_kinds
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import decode
from tests.clusters import Cluster
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

RECORDED = Path(__file__).parents[2] / "data" / "discovery.json"
"""The APIResourceLists of a real server with all versions."""

EVERYTHING = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
PROTOBUF = "application/vnd.kubernetes.protobuf"

GROUPS = (
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "resource.k8s.io",
    "storagemigration.k8s.io",
)
"""The groups in the order in which a real server lists them."""

VERSIONS = {
    "autoscaling": ["v2", "v1"],
    "certificates.k8s.io": ["v1", "v1beta1"],
    "internal.apiserver.k8s.io": ["v1alpha1"],
    "resource.k8s.io": ["v1", "v1beta2", "v1alpha3"],
    "scheduling.k8s.io": ["v1", "v1alpha2"],
    "storagemigration.k8s.io": ["v1beta1"],
}
"""The versions of the groups that do not have v1 only."""


def group_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def recorded() -> dict[str, list[JSON]]:
    """Return the recorded entries of the resources that are served."""
    served = {(kind.api_version, kind.plural) for kind in find_kinds()}
    return {
        each["groupVersion"]: [
            entry
            for entry in each["resources"]
            if (each["groupVersion"], entry["name"].partition("/")[0]) in served
        ]
        for each in json.loads(RECORDED.read_bytes())
    }


def version_document(group: str, version: str) -> JSON:
    """Return the resources of a group version as the document of all groups has them.

    Each resource has its subresources with it, without hashes.
    """

    def described(entry: JSON, name: str) -> JSON:
        kind = {key: entry.get(key, "") for key in ("group", "version", "kind")}
        return {name: entry["name"].rpartition("/")[2], "responseKind": kind}

    entries = recorded()[group_version(group, version)]
    resources = []
    for _, some in groupby(entries, lambda entry: entry["name"].partition("/")[0]):
        parent, *below = some
        resource: JSON = {
            **described(parent, "resource"),
            "scope": "Namespaced" if parent["namespaced"] else "Cluster",
            "singularResource": parent["singularName"],
            **{
                key: parent[key]
                for key in ("verbs", "shortNames", "categories")
                if key in parent
            },
        }
        if below:
            resource["subresources"] = [
                {**described(each, "subresource"), "verbs": each["verbs"]}
                for each in below
            ]
        resources.append(resource)
    return {"version": version, "resources": resources, "freshness": "Current"}


def everything(*groups: str) -> JSON:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    version_document(group, version)
                    for version in VERSIONS.get(group, ["v1"])
                ],
            }
            for group in groups
        ],
    }


def of_kubernetes(groups: list[JSON]) -> list[JSON]:
    """Return the groups without those of the metrics APIs, which no kind is of."""
    metrics = "metrics.k8s.io"
    return [
        each
        for each in groups
        if not (each.get("name") or each["metadata"].get("name", "")).endswith(metrics)
    ]


async def get(cluster: Cluster, path: str, accept: str = "") -> Response:
    answer = await call(cluster, "GET", path, accept=accept)
    assert answer.status == 200, answer.body
    return answer


async def test_each_group_version_lists_what_a_real_server_lists(
    cluster: Cluster,
) -> None:
    found = {}
    for kind in find_kinds():
        root = "/apis" if kind.group else "/api"
        answer = await get(cluster, f"{root}/{kind.api_version}")
        found[kind.api_version] = json.loads(answer.body)
    wanted: dict[str, JSON] = {
        api_version: {
            "kind": "APIResourceList",
            **({"apiVersion": "v1"} if "/" in api_version else {}),
            "groupVersion": api_version,
            "resources": entries,
        }
        for api_version, entries in recorded().items()
        if entries
    }
    assert found == wanted


async def test_groups_are_listed_by_priority(cluster: Cluster) -> None:

    def group(name: str) -> JSON:
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version}
            for version in VERSIONS.get(name, ["v1"])
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    wanted = [group(name) for name in GROUPS]
    body = json.loads((await get(cluster, "/apis")).body)
    body["groups"] = of_kubernetes(body["groups"])
    assert body == {"kind": "APIGroupList", "apiVersion": "v1", "groups": wanted}
    one = json.loads((await get(cluster, "/apis/autoscaling")).body)
    assert one == {"kind": "APIGroup", "apiVersion": "v1", **group("autoscaling")}


@pytest.mark.parametrize(
    ("media_type", "read"),
    [
        ("application/json", json.loads),
        ("application/yaml", yaml.safe_load),
        (PROTOBUF, lambda body: decode(body, built_in())),
    ],
)
async def test_all_groups_come_in_one_document(
    cluster: Cluster, media_type: str, read: Any
) -> None:
    accept = f"{media_type};{EVERYTHING}"
    answer = await get(cluster, "/apis", accept)
    document = read(answer.body)
    document["items"] = of_kubernetes(document["items"])
    assert document == everything(*GROUPS)
    assert read((await get(cluster, "/api", accept)).body) == everything("")
    plain = await get(cluster, "/apis", f"application/json;{EVERYTHING}")
    assert answer.headers["content-type"] == accept
    shared = ("etag", "vary", "cache-control")
    assert [answer.headers[name] for name in shared] == [
        plain.headers["etag"],
        "Accept",
        "public",
    ]


async def test_the_first_form_that_a_client_accepts_is_served(cluster: Cluster) -> None:
    for accept, content_type in {
        f"application/json,application/json;{EVERYTHING}": "application/json",
        f"{PROTOBUF};{EVERYTHING},application/json": f"{PROTOBUF};{EVERYTHING}",
        f"application/json;{EVERYTHING.replace('v2', 'v2beta1')},*/*": (
            "application/json"
        ),
    }.items():
        answer = await get(cluster, "/apis", accept)
        assert answer.headers["content-type"] == content_type


async def test_verbs_are_a_message_of_their_own(cluster: Cluster) -> None:
    """As Go's clients read them from protobuf."""
    body = (await get(cluster, "/apis/metrics.k8s.io/v1beta1", PROTOBUF)).body
    assert b'"\x0b\n\x03get\n\x04list' in body
    listed = json.loads((await get(cluster, "/apis/metrics.k8s.io/v1beta1")).body)
    assert decode(body, built_in()) == listed


async def test_custom_groups_come_last_by_name(cluster: Cluster) -> None:
    """A custom resource has its own group and version in the document of all groups."""
    for group in ("b.example.com", "a.example.com"):
        cluster.server.catalogue.add(
            Kind(group, "v1", "Widget", "widgets", is_custom=True)
        )
    answer = await get(cluster, "/apis", f"application/json;{EVERYTHING}")
    items = json.loads(answer.body)["items"]
    names = [each["metadata"]["name"] for each in of_kubernetes(items)]
    assert names == [*GROUPS, "a.example.com", "b.example.com"]
    (resource,) = items[-1]["versions"][0]["resources"]
    kind = {"group": "b.example.com", "version": "v1", "kind": "Widget"}
    assert resource["responseKind"] == kind
