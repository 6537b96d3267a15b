"""``python -m tests.robustness.settled_cluster``: a cluster of settled replica sets.

This is a process of its own, so that its work does not disturb the measurement.
It ends when its standard input ends.
"""

import asyncio
import copy
import sys
import uuid
from pathlib import Path

import click
import uvloop

from controller_manager.api.json_objects import JSON
from controller_manager.clock import SystemClock
from controller_manager.devcluster.cluster import ClusterOptions, DevCluster
from tests.robustness.objects import workload

LONG_AGO = "2026-01-01T00:00:00Z"


def fill(cluster: DevCluster, count: int) -> None:
    """Store replica sets with one ready pod each, and with the status of that."""
    server = cluster.server
    replica_sets = server.catalogue.find("apps", "v1", "replicasets")
    pods = server.catalogue.find("", "v1", "pods")
    assert replica_sets is not None
    assert pods is not None
    # Defaults are filled in once: to create each object would take half a minute.
    replica_set = server.objects.create(replica_sets, "default", workload("x", 1)).obj
    template = replica_set["spec"]["template"]
    pod = server.objects.create(
        pods, "default", {**template, "metadata": {"name": "x"}}
    ).obj
    for kind, name in ((replica_sets, "x"), (pods, "x")):
        server.storage.collection(kind.resource).remove(("default", name))
    for number in range(count):
        name = f"settled-{number}"
        put = server.storage.collection(replica_sets.resource).put
        put(("default", name), settled_replica_set(replica_set, name, number))
        put = server.storage.collection(pods.resource).put
        put(("default", f"{name}-pod"), settled_pod(pod, name, number))


def settled_replica_set(like: JSON, name: str, number: int) -> JSON:
    new = copy.deepcopy(like)
    new["metadata"].update(name=name, uid=uid_of(number))
    new["spec"]["selector"]["matchLabels"]["app"] = name
    new["spec"]["template"]["metadata"]["labels"]["app"] = name
    counts = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    new["status"] = {
        **dict.fromkeys(counts, 1),
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }
    return new


def settled_pod(like: JSON, name: str, number: int) -> JSON:
    """Return the one pod of a replica set: scheduled, running and ready."""
    new = copy.deepcopy(like)
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": name,
        "uid": uid_of(number),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    new["metadata"].update(
        name=f"{name}-pod",
        uid=uid_of(number + 1_000_000),
        labels={"app": name},
        ownerReferences=[reference],
    )
    new["spec"]["nodeName"] = "node-0"
    ready = {"status": "True", "lastTransitionTime": LONG_AGO}
    conditions = [{"type": each, **ready} for each in ("Ready", "PodScheduled")]
    container = {"name": "app", "image": "app:v1", "ready": True, "restartCount": 0}
    new["status"] = {
        "phase": "Running",
        "conditions": conditions,
        "containerStatuses": [container],
    }
    return new


def uid_of(number: int) -> str:
    return str(uuid.UUID(int=number + 1))


async def serve(kubeconfig: Path, count: int) -> None:
    """Write the kubeconfig when all objects are stored; serve until stdin ends."""
    async with DevCluster(
        ClusterOptions(pod_start_delay=1.0), SystemClock()
    ) as cluster:
        fill(cluster, count)
        cluster.write_kubeconfig(kubeconfig)
        await asyncio.to_thread(sys.stdin.read)


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True)
@click.option("--replica-sets", type=int, required=True)
def main(kubeconfig: Path, replica_sets: int) -> None:
    """Run until standard input ends."""
    uvloop.run(serve(kubeconfig, replica_sets))


if __name__ == "__main__":
    main()
