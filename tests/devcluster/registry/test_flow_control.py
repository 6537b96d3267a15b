"""Flow schemas and priority levels: those that every cluster has, and others."""

import pytest

from controller_manager.devcluster.apiserver.kind import Kind
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime

SCHEMAS = (
    *("exempt", "probes", "system-leader-election", "endpoint-controller"),
    *("workload-leader-election", "system-node-high", "system-nodes"),
    *("kube-controller-manager", "kube-scheduler", "kube-system-service-accounts"),
    *("service-accounts", "global-default", "catch-all"),
)
LEVELS = (
    *("catch-all", "exempt", "global-default", "leader-election", "node-high"),
    *("system", "workload-high", "workload-low"),
)


def kind_of(cluster: Cluster, plural: str) -> Kind:
    found = cluster.server.catalogue.find("flowcontrol.apiserver.k8s.io", "v1", plural)
    assert found is not None
    return found


async def test_every_cluster_has_those_of_upstream(cluster: Cluster) -> None:
    """Requests meet the schemas in the order of the table; each level exists."""
    storage = cluster.server.storage
    found = {}
    for plural in ("flowschemas", "prioritylevelconfigurations"):
        kind = kind_of(cluster, plural)
        stored = [*storage.collection(kind.resource)]
        found[plural] = [each.obj for each in kind.strategy.in_table_order(stored)]
        wrong = [kind.strategy.validate(each) for each in found[plural]]
        assert wrong == [[]] * len(stored)
    schemas, levels = found.values()
    assert tuple(each["metadata"]["name"] for each in schemas) == SCHEMAS
    dangling = [each["status"]["conditions"][0]["status"] for each in schemas]
    assert dangling == ["False"] * len(SCHEMAS)
    assert tuple(sorted(each["metadata"]["name"] for each in levels)) == LEVELS
