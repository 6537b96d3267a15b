"""Flow schemas and priority levels: those that every cluster has, and others."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from tests.clusters import Cluster
from tests.devcluster.registry.requests import update

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


def stored(cluster: Cluster, plural: str, name: str) -> JSON:
    return cluster.server.objects.find(kind_of(cluster, plural), "", name).obj


def dangling(cluster: Cluster, name: str) -> tuple[str, str]:
    (condition,) = stored(cluster, "flowschemas", name)["status"]["conditions"]
    assert condition["type"] == "Dangling"
    return condition["status"], condition["message"]


async def test_every_cluster_has_those_of_upstream(cluster: Cluster) -> None:
    """Requests meet the schemas in the order of the table; each level exists."""
    kind = kind_of(cluster, "flowschemas")
    schemas = list(cluster.server.storage.collection(kind.resource))
    ordered = [each.obj for each in kind.strategy.in_table_order(schemas)]
    assert tuple(each["metadata"]["name"] for each in ordered) == SCHEMAS
    assert {dangling(cluster, name)[0] for name in SCHEMAS} == {"False"}
    level = kind_of(cluster, "prioritylevelconfigurations")
    levels = [each.obj for each in cluster.server.storage.collection(level.resource)]
    assert tuple(sorted(each["metadata"]["name"] for each in levels)) == LEVELS
    wrong = [each for one in ordered for each in kind.strategy.validate(one)]
    assert (
        wrong + [each for one in levels for each in level.strategy.validate(one)] == []
    )


async def test_the_exempt_level_may_lend_shares(cluster: Cluster) -> None:
    """That is a new generation."""
    exempt = stored(cluster, "prioritylevelconfigurations", "exempt")
    changed = update(cluster, exempt, {"spec": {"exempt": {"lendablePercent": 50}}})
    assert changed["spec"]["exempt"]["lendablePercent"] == 50
    assert changed["metadata"]["generation"] == 2
