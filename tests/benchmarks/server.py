"""``python -m tests.benchmarks.server``: a development cluster to measure against.

It begins with the requested number of idle pods. It counts
the requests of all clients except the benchmarks' driver. It reads orders from
standard input, one line of JSON each, and answers each with one line.
"""

import asyncio
import itertools
import json
import sys
import uuid
from collections import Counter
from http import HTTPStatus
from pathlib import Path
from typing import Final

import click
import uvloop

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import SystemClock
from controller_manager.devcluster.apiserver.request_info import is_true
from controller_manager.devcluster.apiserver.responses import refused
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.cluster import ClusterOptions, DevCluster
from controller_manager.devcluster.http_server import Answer, Answering
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.scheme.statuses import conflict
from controller_manager.devcluster.testing.requests import (
    Ending,
    Fault,
    FaultLayer,
    RequestFilter,
    Which,
    make_filter,
)
from tests.benchmarks.sizing.copies import Copies
from tests.devcluster.rows import parsed

DRIVER: Final = "controller-manager-benchmarks"
NAMESPACE: Final = "bench"
_APPS: Final = 100
_TURN: Final = 0.01
"""Seconds between two bursts of a storm."""
_CALM_TURNS: Final = 20
_TURNS_TO_END: Final = 3
"""Turns after which a watch that is ended takes no more events."""
_LATE: Final = 0.2
"""Seconds; a turn that comes so late says that the event loop is busy."""


class BenchServer:
    """The cluster, its count of requests, its storms of changes, and its faults."""

    def __init__(self, cluster: DevCluster, faults: FaultLayer) -> None:
        self._cluster = cluster
        self._faults = faults
        self._counts: Counter[str] = Counter()
        self._pods = cluster.server.storage.collection("pods")
        self._copies = Copies(cluster.server.storage)
        handle_as = cluster.server.handle_as

        async def counted(
            certificate_user: User | None, request: Request
        ) -> Response | StreamingResponse:
            if DRIVER not in request.headers.get("user-agent", ""):
                self._counts[_verb(request)] += 1
                if request.body:
                    self._counts["bytes sent"] += len(request.body)
            answer = await handle_as(certificate_user, request)
            self._counts["conflicts"] += answer.status == HTTPStatus.CONFLICT
            return answer

        cluster.server.handle_as = counted  # type: ignore[method-assign]

    def fill(self, pods: int) -> None:
        """Store idle pods, which have no owner, without admission."""
        kind = self._cluster.server.catalogue.find("", "v1", "namespaces")
        assert kind is not None
        namespace = {"metadata": {"name": NAMESPACE}}
        self._cluster.server.objects.create(kind, "", namespace)
        for number in range(pods):
            self._pods.put((NAMESPACE, f"idle-{number:06}"), idle_pod(number))

    async def run(self) -> None:
        """Carry out the orders on standard input, until it ends."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while line := await reader.readline():
            order = json.loads(line)
            sys.stdout.write(json.dumps(await self._carry_out(order)) + "\n")
            sys.stdout.flush()

    async def _carry_out(self, order: JSON) -> JSON:
        match order["do"]:
            case "counts":
                counts, self._counts = self._counts, Counter()
                return dict(counts)
            case "storm":
                return await self._storm(order["rate"], order["seconds"])
            case "copy workload":
                self._copies.add(order["name"], order["count"], order["nodes"])
                await _catch_up()
            case "conflict":
                which: Which = {"resource": order["resource"], "name": order["name"]}
                chosen = make_filter(which, ("update", "patch"))
                self._faults.add(Fault(chosen, _refuse, 1))
            case "lose watches":
                await self._lose_watches(Ending[order["ending"]], order["config_map"])
        return {}

    async def _lose_watches(self, ending: Ending, config_map: str) -> None:
        """End all watches, and delete a config map before anybody watches again.

        With EXPIRED, nobody can read in the history that it was deleted.
        """
        storage = self._cluster.server.storage
        self._faults.end_watches(RequestFilter(), ending, storage.version)
        for _ in range(_TURNS_TO_END):
            await asyncio.sleep(0)
        storage.collection("configmaps").remove((NAMESPACE, config_map))
        if ending is Ending.EXPIRED:
            for kind in self._cluster.server.catalogue.all():
                storage.collection(kind.resource).compact()

    async def _storm(self, rate: int, seconds: float) -> JSON:
        """Change the status of idle pods, `rate` times a second."""
        keys = [
            (NAMESPACE, each.obj["metadata"]["name"])
            for each in self._pods
            if each.obj["metadata"]["name"].startswith("idle-")
        ]
        turns = itertools.cycle(keys)
        loop = asyncio.get_running_loop()
        started, events = loop.time(), 0
        while (passed := loop.time() - started) < seconds:
            while events < rate * passed:
                self._change(next(turns), events)
                events += 1
            await asyncio.sleep(_TURN)
        return {"events": events, "seconds": loop.time() - started}

    def _change(self, key: tuple[str, str], number: int) -> None:
        stored = self._pods.get(key)
        assert stored is not None
        status = {**stored.obj["status"], "podIP": f"10.0.{number % 250}.1"}
        self._pods.put(key, {**stored.obj, "status": status})


async def _refuse(request: Request, answer: Answering) -> Answer:
    """Refuse a write, as if somebody else had just written the object."""
    del answer
    return refused(conflict("", request.path, "", "the object has been modified"))


def _verb(request: Request) -> str:
    if request.method != "GET":
        what = "events" if "/events" in request.path else ""
        return f"{request.method} {what}".strip()
    return "WATCH" if is_true(dict(request.query), "watch") else "GET"


_CONTAINER: Final[JSON] = parsed("""
    args: [--port=8080, --log-level=info]
    ports: [{containerPort: 8080, protocol: TCP}]
    resources:
      limits: {cpu: 500m, memory: 256Mi}
      requests: {cpu: 100m, memory: 128Mi}
    readinessProbe: {httpGet: {path: /ready, port: 8080}}
    livenessProbe: {httpGet: {path: /alive, port: 8080}}
    volumeMounts: [{name: token, mountPath: /var/run/secrets}]
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    imagePullPolicy: IfNotPresent""")
_CONTAINERS: Final = [
    {
        "name": name,
        "image": f"registry.example.com/team/{name}:v1.2.3",
        "env": [
            {"name": f"VARIABLE_{number}", "value": f"some value number {number}"}
            for number in range(12)
        ],
        **_CONTAINER,
    }
    for name in ("app", "proxy")
]
_SPEC: Final[JSON] = {
    "containers": _CONTAINERS,
    **parsed("""
        volumes: [{name: token, emptyDir: {}}]
        restartPolicy: Always
        terminationGracePeriodSeconds: 30
        dnsPolicy: ClusterFirst
        serviceAccountName: default
        nodeName: node-0
        securityContext: {}
        schedulerName: default-scheduler
        tolerations:
          - key: node.kubernetes.io/not-ready
            operator: Exists
            effect: NoExecute
            tolerationSeconds: 300"""),
}
_BEGAN: Final = "2026-01-01T00:00:00Z"
_STATUS: Final = {
    "phase": "Running",
    "conditions": [
        {"type": kind, "status": "True", "lastTransitionTime": _BEGAN}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ],
    "containerStatuses": [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": f"{each['image']}@sha256:{'0' * 64}",
            "containerID": f"containerd://{'0' * 64}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": _BEGAN}},
        }
        for each in _CONTAINERS
    ],
    "hostIP": "10.0.0.1",
    "podIP": "10.244.0.1",
    "startTime": _BEGAN,
    "qosClass": "Burstable",
}


def idle_pod(number: int) -> JSON:
    """Return a pod without an owner, of the usual size, 3.5 kB."""
    address = f"10.{64 + number // 65536}.{number // 256 % 256}.{number % 256}"
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"idle-{number:06}",
            "namespace": NAMESPACE,
            "uid": str(uuid.UUID(int=number)),
            "creationTimestamp": _BEGAN,
            "labels": {"app": f"idle-{number % _APPS}", "tier": "backend"},
            "annotations": {"example.com/config-hash": f"{number:064x}"},
        },
        "spec": _SPEC,
        "status": {**_STATUS, "podIP": address, "podIPs": [{"ip": address}]},
    }


async def _catch_up() -> None:
    """Wait until the cluster's own parts have handled the objects that it begins with.

    Its nodes and caches need half a minute for 100,000 pods, and answer nothing then.
    """
    loop = asyncio.get_running_loop()
    calm = 0
    while calm < _CALM_TURNS:
        before = loop.time()
        await asyncio.sleep(_TURN)
        calm = calm + 1 if loop.time() - before < _LATE else 0


async def _serve(
    kubeconfig: Path, idle_pods: int, nodes: int, start_delay: float
) -> None:
    options = ClusterOptions(
        port=0, nodes=nodes, pod_start_delay=start_delay, grace_scale=0.0
    )
    faults = FaultLayer()
    async with DevCluster(options, SystemClock(), intercept=faults) as cluster:
        server = BenchServer(cluster, faults)
        server.fill(idle_pods)
        await _catch_up()
        cluster.write_kubeconfig(kubeconfig)
        await server.run()


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True)
@click.option("--idle-pods", default=0)
@click.option("--nodes", default=3)
@click.option("--start-delay", default=0.0)
def main(
    *,
    kubeconfig: Path,
    idle_pods: int,
    nodes: int,
    start_delay: float,
) -> None:
    """Run until standard input ends."""
    uvloop.run(_serve(kubeconfig, idle_pods, nodes, start_delay))


if __name__ == "__main__":
    main()
