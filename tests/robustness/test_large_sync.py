"""A stateful set with ten thousand pods: each of its syncs is one long turn."""

import copy
from pathlib import Path
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.robustness.cluster import FaultyCluster, faulty_cluster
from tests.robustness.daemon import SHORT_LEASE, run_daemon
from tests.robustness.settled_cluster import settled_pod
from tests.robustness.situation import now, on_uvloop, until, until_time

pytestmark = pytest.mark.slow

PODS = 10_000
SYNCS = 20
EVERY = 0.5
"""Seconds from one change of the set to the next."""

FLAGS = ("--controllers=statefulset-controller", *SHORT_LEASE)


async def fill(cluster: FaultyCluster) -> None:
    """Store a set whose pods all run; to create each of them would take a minute."""
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    body = stateful_set_json(
        "web",
        replicas=PODS,
        podManagementPolicy="Parallel",
        updateStrategy={"type": "OnDelete"},
    )
    owner = await cluster.create(path, body)
    template = owner["spec"]["template"]
    like = await cluster.create(
        "/api/v1/namespaces/default/pods", {**template, "metadata": {"name": "x"}}
    )
    storage = cluster.server.storage.collection("pods")
    storage.remove(("default", "x"))
    for number in range(PODS):
        pod = settled_pod(like, f"web-{number}", number)
        pod["metadata"]["name"] = f"web-{number}"
        pod["metadata"]["labels"] = {
            **template["metadata"]["labels"],
            "statefulset.kubernetes.io/pod-name": f"web-{number}",
            "apps.kubernetes.io/pod-index": str(number),
        }
        reference = pod["metadata"]["ownerReferences"][0]
        reference.update(kind="StatefulSet", name="web", uid=owner["metadata"]["uid"])
        storage.put(("default", f"web-{number}"), pod)


def touch(cluster: FaultyCluster, number: int) -> None:
    """Change an annotation of the set, so that it is synced again."""
    kind = cluster.server.catalogue.find("apps", "v1", "statefulsets")
    assert kind is not None
    stored: JSON = copy.deepcopy(
        cluster.server.objects.find(kind, "default", "web").obj
    )
    stored["metadata"]["annotations"] = {"touched": str(number)}
    cluster.server.objects.update(kind, "default", "web", stored)


def ready(cluster: FaultyCluster) -> int:
    """Return the number of ready pods, as the controller has counted them."""
    (stored,) = cluster.stored("statefulsets.apps", "default")
    number: int = stored["status"].get("readyReplicas", 0)
    return number


@on_uvloop
async def test_syncs_of_ten_thousand_pods_keep_the_lease_and_let_probes_be_answered(
    tmp_path: Path, figures: dict[str, Any]
) -> None:
    """A lease of five seconds; the syncs leave no pause between them."""
    async with faulty_cluster() as cluster:
        await fill(cluster)
        async with run_daemon(cluster.kubeconfig, tmp_path, *FLAGS) as manager:
            await until(lambda: ready(cluster) == PODS, 60, "a first status")
            took, statuses, used = [], set(), manager.cpu_time()
            for number in range(SYNCS):
                began = now()
                touch(cluster, number)
                status, _ = await manager.get("/healthz")
                took.append(now() - began)
                statuses.add(status)
                await until_time(began + EVERY)
            figures["CPU of a sync"] = (manager.cpu_time() - used) / SYNCS
            figures["longest answer"] = max(took)
            longest = cluster.longest_without_renewal()
            figures["longest without a renewal"] = longest
            assert statuses == {200}
            assert max(took) < 1.0
            assert longest < 3.0
