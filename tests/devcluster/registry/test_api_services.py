"""The servers of group versions."""

import json

import pytest

from controller_manager.devcluster.registry.apiextensions.definitions import (
    sync_definitions,
)
from tests.clusters import Cluster
from tests.devcluster.registry.requests import create
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

PATH = "/apis/apiregistration.k8s.io/v1/apiservices"
SERVICES = "/api/v1/namespaces/kube-system/services"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def available(cluster: Cluster, name: str) -> tuple[str, str, str]:
    """Return the status, the reason and the message of the condition Available."""
    found = json.loads((await call(cluster, "GET", f"{PATH}/{name}")).body)
    (condition,) = found["status"]["conditions"]
    assert condition["type"] == "Available"
    return condition["status"], condition["reason"], condition["message"]


async def register(cluster: Cluster, group: str, service: str) -> None:
    spec = {
        "group": group,
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": "kube-system", "name": service},
    }
    body = {"metadata": {"name": f"v1beta1.{group}"}, "spec": spec}
    answer = await call(cluster, "POST", PATH, json.dumps(body).encode())
    assert answer.status == 201, answer.body
    assert json.loads(answer.body)["spec"]["service"]["port"] == 443


async def test_built_in_group_versions_are_registered(cluster: Cluster) -> None:
    """All but those of the aggregator itself and of the metrics."""
    listed = json.loads((await call(cluster, "GET", PATH)).body)["items"]
    served = {
        f"{version}.{group}"
        for group, version in cluster.server.catalogue.group_versions()
        if group != "apiregistration.k8s.io" and not group.endswith("metrics.k8s.io")
    }
    assert {each["metadata"]["name"] for each in listed} == served
    core = next(each for each in listed if each["metadata"]["name"] == "v1.")
    spec = {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}
    assert core["spec"] == spec
    local = ("True", "Local", "Local APIServices are always available")
    assert await available(cluster, "v1.apps") == local


async def test_custom_resources_are_registered_while_they_are_defined(
    cluster: Cluster,
) -> None:
    definition = create(cluster, "CustomResourceDefinition")
    sync_definitions(cluster.server.objects, cluster.server.catalogue)
    local = ("True", "Local", "Local APIServices are always available")
    assert await available(cluster, "v1.example.com") == local
    name = definition["metadata"]["name"]
    assert (await call(cluster, "DELETE", f"{DEFINITIONS}/{name}")).status == 200
    assert (await call(cluster, "GET", f"{PATH}/v1.example.com")).status == 404


async def test_a_server_beside_the_cluster_is_out_of_reach(cluster: Cluster) -> None:
    """The condition names the missing part; metrics need no such server."""
    await register(cluster, "example.com", "adapter")
    assert await available(cluster, "v1beta1.example.com") == (
        "False",
        "ServiceNotFound",
        'service/adapter in "kube-system" is not present',
    )
    service = {"metadata": {"name": "adapter"}, "spec": {"ports": [{"port": 443}]}}
    await call(cluster, "POST", SERVICES, json.dumps(service).encode())
    await register(cluster, "metrics.k8s.io", "metrics-server")
    passed = ("True", "Passed", "all checks passed")
    assert await available(cluster, "v1beta1.metrics.k8s.io") == passed
    status, reason, message = await available(cluster, "v1beta1.example.com")
    assert (status, reason) == ("False", "FailedDiscoveryCheck")
    assert message == (
        "failing or missing response from "
        "https://adapter.kube-system.svc:443/apis/example.com/v1beta1: the development "
        "cluster runs no containers, so it reaches no aggregated API server"
    )
