"""``python -m tests.benchmarks.events``: the CPU time of one event of a pod.

Pods of replica sets are created, bound, started, ready, deleted and gone, beside all
controllers of this build: each pod has seven events. They are fed to the informer of
pods as the lines of a watch, so nothing else is measured: decoding, transforming, and
then the store with its indexes and the handlers.

With ``--versus`` the same is measured in another source tree, by turns, because the
speed of a machine changes from minute to minute.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import click
import uvloop
from rich.console import Console
from rich.table import Table

from controller_manager.api.core.v1 import PODS
from controller_manager.client.builder import Connections
from controller_manager.client.rest.serializer import Bookmark, EventDecoder
from controller_manager.manager.manager import STRICT_READS
from controller_manager.observability.logs import silent_logger
from tests.benchmarks.machine import usage_of
from tests.clusters import ROOT_CA, Cluster, make_config, run_manager

TREE: Final = Path(__file__).parents[2]
"""The directory of this source."""

_REPLICA_SETS: Final = 10
_AT_A_TIME: Final = 200
_MEMORY_PODS: Final = 11_000
_FIRST_VERSION: Final = 1_000_000
_UNTIL_READY: Final = 4
"""The events of a pod until it is ready."""
_STEPS: Final = ("created", "bound", "started", "ready", "deleted", "ended", "gone")
_TIME: Final = "2026-01-01T00:00:00Z"
_MANAGED: Final = [
    {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _TIME,
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}},
        },
    }
    for manager in ("kube-controller-manager", "kubelet")
]


def _owner(number: int) -> tuple[str, str]:
    number %= _REPLICA_SETS
    return f"web-{number}", f"00000000-0000-4000-8000-{number:012}"


def _pod(number: int, version: int, step: int) -> dict[str, Any]:
    """Return a pod of about 3.5 kB, as an API server stores it after some steps."""
    owner, uid = _owner(number)
    app = owner.replace("web", "app")
    metadata: dict[str, Any] = {
        "name": f"{owner}-{number:05}",
        "generateName": f"{owner}-",
        "namespace": "default",
        "uid": f"11111111-0000-4000-8000-{number:012}",
        "resourceVersion": str(version),
        "generation": 1,
        "creationTimestamp": _TIME,
        "labels": {"app": app, "pod-template-hash": "6d4b75cb6d"},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": owner,
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": _MANAGED,
    }
    if step >= _STEPS.index("deleted"):
        metadata |= {
            "deletionTimestamp": _TIME,
            "deletionGracePeriodSeconds": 30,
            "generation": 2,
        }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": _spec(number, step),
        "status": _status(number, step),
    }


def _spec(number: int, step: int) -> dict[str, Any]:
    token = f"kube-api-access-{number:05}"
    projected = {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {
                "configMap": {
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    "name": "kube-root-ca.crt",
                }
            },
        ],
    }
    probe = {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "periodSeconds": 1}
    container = {
        "name": "web",
        "image": "nginx:1.29",
        "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
        "resources": {
            "limits": {"cpu": "500m", "memory": "128Mi"},
            "requests": {"cpu": "100m", "memory": "64Mi"},
        },
        "volumeMounts": [
            {
                "name": token,
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    tolerated = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    spec: dict[str, Any] = {
        "volumes": [{"name": token, "projected": projected}],
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for key in tolerated
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if step:
        spec["nodeName"] = f"node-{number % 10}"
    return spec


def _status(number: int, step: int) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": "Pending", "qosClass": "Burstable"}
    if not step:
        return status
    is_ready = step in (_STEPS.index("ready"), _STEPS.index("deleted"))
    types = {"PodScheduled": True}
    if step >= _STEPS.index("started"):
        types |= {
            "PodReadyToStartContainers": True,
            "Initialized": True,
            "Ready": is_ready,
            "ContainersReady": is_ready,
        }
        address = f"10.244.{number // 250 % 250}.{number % 250 + 1}"
        status |= {
            "phase": "Running",
            "startTime": _TIME,
            "hostIP": "192.168.0.1",
            "hostIPs": [{"ip": "192.168.0.1"}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "containerStatuses": [
                {
                    "name": "web",
                    "state": {"running": {"startedAt": _TIME}},
                    "lastState": {},
                    "ready": is_ready,
                    "restartCount": 0,
                    "image": "docker.io/library/nginx:1.29",
                    "imageID": f"docker.io/library/nginx@sha256:{'0' * 64}",
                    "containerID": f"containerd://{number:064}",
                    "started": True,
                }
            ],
        }
    status["conditions"] = [
        {
            "type": name,
            "status": str(value),
            "lastProbeTime": None,
            "lastTransitionTime": _TIME,
        }
        for name, value in types.items()
    ]
    return status


def lines_of_pods(count: int, version: int, steps: int = len(_STEPS)) -> list[bytes]:
    """Return the events of so many pods, each step of all pods before the next."""
    lines = []
    for step in range(steps):
        kind = {0: "ADDED", _STEPS.index("gone"): "DELETED"}.get(step, "MODIFIED")
        for number in range(count):
            version += 1
            pod = _pod(number, version, step)
            event = {"type": kind, "object": pod}
            lines.append(json.dumps(event, separators=(",", ":")).encode())
    return lines


class _Feed:
    """Feeds events to the informer of pods, and measures the parts of their cost."""

    def __init__(self, informer: Any) -> None:
        self._informer = informer
        self._reflector = informer._reflector
        self._version = _FIRST_VERSION

    def _decoder(self) -> EventDecoder[Any]:
        # Older sources have no decoder of pods only.
        return getattr(self._reflector, "decoder", None) or EventDecoder(PODS.type)

    def lines(self, pods: int, steps: int = len(_STEPS)) -> list[bytes]:
        """Return the events of pods, of versions that the informer has not seen."""
        self._version += 10 * pods
        return lines_of_pods(pods, self._version, steps)

    def measure(self) -> dict[str, float]:
        """Return the CPU seconds of one event, by part."""
        lines = self.lines(_AT_A_TIME)
        decoder = self._decoder()
        sums: dict[str, float] = defaultdict(float)
        batches = [lines[at : at + 100] for at in range(0, len(lines), 100)]
        for batch in batches:
            began = time.process_time()
            events = [decoder.decode(line) for line in batch]
            decoded = time.process_time()
            self.deliver(events)
            sums["decoding"] += decoded - began
            sums["the rest"] += time.process_time() - decoded
        sums["transforming"] = self._transforming(self.lines(_AT_A_TIME))
        sums["store and handlers"] = sums["the rest"] - sums["transforming"]
        sums["all"] = sums["decoding"] + sums.pop("the rest")
        return {name: sums[name] / len(lines) for name in sums}

    def _transforming(self, lines: Sequence[bytes]) -> float:
        decoder = self._decoder()
        events = [decoder.decode(line) for line in lines]
        objects = [each.object for each in events if not isinstance(each, Bookmark)]
        transform = self._reflector.transform
        began = time.process_time()
        for each in objects:
            transform(each)
        return time.process_time() - began

    def deliver(self, events: Sequence[Any]) -> None:
        """Deliver events as the reflector does."""
        deliver = self._reflector._deliver
        for event in events:
            deliver(event)

    def calls(self, pods: int) -> tuple[float, dict[str, int]]:
        """Return how many handlers are called for an event, and which."""
        decoder = self._decoder()
        lines = self.lines(pods)
        events = [decoder.decode(line) for line in lines]
        counted = self._codes()
        found: dict[str, int] = defaultdict(int)

        def count(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code in counted:
                found[counted[frame.f_code]] += 1

        sys.setprofile(count)
        try:
            self.deliver(events)
        finally:
            sys.setprofile(None)
        return sum(found.values()) / len(lines), dict(found)

    def _codes(self) -> dict[CodeType, str]:
        codes: dict[CodeType, str] = {}
        informer = self._informer
        # Older sources have no dispatcher.
        holder = getattr(informer, "_dispatcher", informer)
        for each in holder._registrations:
            for name in ("on_add", "on_update", "on_delete"):
                function: Callable[..., None] = getattr(each.handler, name)
                code = getattr(function, "__code__", None)
                if code is not None and code.co_name != "_ignore":
                    codes[code] = function.__qualname__
        return codes

    async def memory(self) -> float:
        """Return the kB that a cached pod takes."""
        warm = self.lines(1000)
        decoder = self._decoder()
        self.deliver([decoder.decode(line) for line in warm])
        del warm
        await asyncio.sleep(0.1)
        before = _resident()
        self._version += _MEMORY_PODS * 10
        for line in _ready_lines(self._version):
            self.deliver([decoder.decode(line)])
        return (_resident() - before) / _MEMORY_PODS


def _ready_lines(version: int) -> Iterator[bytes]:
    """Yield the events of each pod until it is ready, one pod after the other."""
    for number in range(_MEMORY_PODS):
        for step in range(_UNTIL_READY):
            version += 1
            kind = "MODIFIED" if step else "ADDED"
            event = {"type": kind, "object": _pod(number, version, step)}
            yield json.dumps(event, separators=(",", ":")).encode()


def _resident() -> float:
    """Return the resident memory in kB."""
    gc.collect()
    return 1024 * usage_of(os.getpid()).resident


async def _child() -> None:
    """Run a manager; answer each line of the standard input with figures."""
    # The package of tests switches on the strict mode, in which reads cost far more.
    os.environ.pop(STRICT_READS, None)
    cluster = Cluster()
    for number in range(_REPLICA_SETS):
        name, _ = _owner(number)
        labels = {"app": name.replace("web", "app")}
        container = {"name": "web", "image": "nginx:1.29"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}}
        cluster.add("ReplicaSet", name, "apps/v1", spec={**spec, "template": template})
        ports = [{"name": "http", "port": 80, "targetPort": "http"}]
        cluster.add("Service", name, spec={"selector": labels, "ports": ports})
    for number in range(10):
        cluster.add("Node", f"node-{number}")
    connections = Connections(cluster.transport, root_ca=ROOT_CA)
    config = make_config(controllers=("*",))
    async with run_manager(
        connections, cluster.clock, cluster.rng, config, silent_logger()
    ) as manager:
        await asyncio.sleep(2)
        owners = {each.metadata.name: each for each in _cache(manager, "replicasets")}
        for number in range(_REPLICA_SETS):
            name, uid = _owner(number)
            _put(manager, "replicasets", owners[name], uid)
        (pods,) = _informers(manager, "pods")
        await _answer(_Feed(pods))


def _informers(manager: Any, plural: str) -> list[Any]:
    return [each for each in manager.informers.all() if each.resource.plural == plural]


def _cache(manager: Any, plural: str) -> list[Any]:
    return list(_informers(manager, plural)[0].store)


def _put(manager: Any, plural: str, obj: Any, uid: str) -> None:
    """Give a cached object the uid that the pods name."""
    from msgspec.structs import replace as with_  # noqa: PLC0415 - structs only

    metadata = with_(obj.metadata, uid=uid)
    _informers(manager, plural)[0].store.put(with_(obj, metadata=metadata))


async def _answer(feed: _Feed) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answer: object
        match line.strip():
            case "calls":
                answer = feed.calls(_AT_A_TIME)
            case "memory":
                answer = await feed.memory()
            case _:
                answer = feed.measure()
        await asyncio.sleep(0.2)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


@contextmanager
def _running(tree: Path) -> Iterator[Callable[[str], Any]]:
    """Run the measured source in a process; yield a function that asks it."""
    process = subprocess.Popen(
        [sys.executable, __file__, "child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"},
    )

    def ask(what: str) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(what + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            msg = f"the manager of {tree} has ended"
            raise RuntimeError(msg)
        return json.loads(answer)

    try:
        yield ask
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def measure(trees: dict[str, Path], rounds: int) -> dict[str, dict[str, float]]:
    """Return the least CPU time of each part of an event in µs, and further figures."""
    least: dict[str, dict[str, float]] = defaultdict(dict)
    with ExitStack() as stack:
        asked = {
            name: stack.enter_context(_running(tree)) for name, tree in trees.items()
        }
        for _ in range(rounds):
            for name, ask in asked.items():
                for part, seconds in ask("events").items():
                    known = least[name].get(f"{part}, µs", float("inf"))
                    least[name][f"{part}, µs"] = min(known, 1e6 * seconds)
        for name, ask in asked.items():
            least[name]["handlers called"], _ = ask("calls")
            least[name]["memory of a pod, kB"] = ask("memory")
    return least


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--versus",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Another source tree to measure by turns.",
)
def main(rounds: int, versus: Path | None) -> None:
    """Measure the CPU time of one event of a pod."""
    trees = {"now": TREE}
    if versus is not None:
        trees = {"before": versus.resolve(), **trees}
    figures = measure(trees, rounds)
    ratio = ("ratio",) if versus is not None else ()
    table = Table("", *figures, *ratio)
    for part, now in figures["now"].items():
        row = [f"{figures[name][part]:.2f}" for name in figures]
        if versus is not None:
            row.append(f"{now / figures['before'][part]:.2f}")
        table.add_row(part, *row)
    Console().print(table)


if __name__ == "__main__":
    if sys.argv[1:] == ["child"]:
        uvloop.run(_child())
    else:
        main()
