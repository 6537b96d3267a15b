"""Parts of the cluster are managers of the fields that they write."""

import pytest

from controller_manager.devcluster.registry import find_kinds
from tests.clusters import Cluster
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime


async def test_parts_of_the_cluster_own_fields_they_write(cluster: Cluster) -> None:
    body = b'{"metadata":{"name":"m"},"data":{"a":"1"}}'
    await call(cluster, "POST", "/api/v1/namespaces/default/configmaps", body)
    kind = next(each for each in find_kinds() if each.kind == "ConfigMap")
    objects = cluster.server.objects.in_name_of("kubelet")
    old = objects.find(kind, "default", "m").obj
    new = {**old, "data": {"a": "1", "b": "2"}}
    found = objects.update(kind, "default", "m", new).obj
    (entry,) = (
        each
        for each in found["metadata"]["managedFields"]
        if each["manager"] == "kubelet"
    )
    assert (entry["operation"], entry["fieldsV1"]) == (
        "Update",
        {"f:data": {"f:b": {}}},
    )
    other = objects.create(kind, "default", {"metadata": {"name": "o"}})
    assert "managedFields" not in other.obj["metadata"]
