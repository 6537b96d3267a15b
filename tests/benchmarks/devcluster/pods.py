"""Pods that several client processes create over HTTPS until all are ready.

Several clusters, each from a source of its own, are measured by turns: other work on
the machine slows all of them down.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.benchmarks.devcluster.processes import running_cluster
from tests.benchmarks.devcluster.requests import created_until_ready
from tests.benchmarks.machine import usage_of
from tests.benchmarks.measuring import Figures

_PATIENCE: Final = 300.0
_ROUND: Final = 200
"""The number of pods that one cluster gets before it is the turn of the next."""


def measure_pods(
    trees: Mapping[str, Path], pods: int, clients: int, processes: int
) -> dict[str, Figures]:
    """Return the pods a second of each cluster, and the CPU time of one pod.

    Each client process creates its part of the pods with its part of the clients.
    """
    with ExitStack() as stack:
        measured = [
            stack.enter_context(_cluster(tree, clients, processes))
            for tree in trees.values()
        ]
        for each in measured:
            each.create(20, counts=False)  # modules are imported on demand
        for number in range(max(1, pods // _ROUND)):
            order = measured if number % 2 else measured[::-1]
            for each in order:
                each.create(min(pods, _ROUND))
        return dict(zip(trees, (each.figures() for each in measured), strict=True))


@contextmanager
def _cluster(tree: Path, clients: int, processes: int) -> Iterator["_Measured"]:
    """Run a cluster and its clients."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = running_cluster(directory, tree=tree)
        kubeconfig, pid = stack.enter_context(running)
        command = (sys.executable, "-m", __spec__.name, str(kubeconfig))
        number = str(max(1, clients // processes))
        each = [
            stack.enter_context(_client(*command, f"bench-{each}", number))
            for each in range(processes)
        ]
        yield _Measured(pid, each)


@contextmanager
def _client(*command: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(_PATIENCE)
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


class _Measured:
    """A cluster and its clients, and the sums of their figures."""

    def __init__(self, pid: int, clients: Sequence["subprocess.Popen[bytes]"]) -> None:
        self._pid = pid
        self._clients = clients
        self._sums: dict[str, float] = defaultdict(float)

    def create(self, pods: int, *, counts: bool = True) -> None:
        """Let all clients together create pods, and wait until all are ready."""
        before = usage_of(self._pid).cpu
        part = max(1, pods // len(self._clients))
        for client in self._clients:
            assert client.stdin is not None
            client.stdin.write(b"%d\n" % part)
        answers = [_answer(client) for client in self._clients]
        if counts:
            self._sums["pods"] += part * len(self._clients)
            self._sums["cpu"] += usage_of(self._pid).cpu - before
            for name in ("created", "ready"):
                self._sums[name] += max(each[name] for each in answers)

    def figures(self) -> Figures:
        """Return the figures of all rounds."""
        sums = self._sums
        return {
            "pods, created /s": sums["pods"] / sums["created"],
            "pods, created and ready /s": sums["pods"] / sums["ready"],
            "CPU of the cluster for a pod, ms": 1000 * sums["cpu"] / sums["pods"],
            "pods, created and ready by a second of CPU": sums["pods"] / sums["cpu"],
        }


def _answer(client: "subprocess.Popen[bytes]") -> JSON:
    assert client.stdout is not None
    line = client.stdout.readline()
    if not line:
        msg = "a client could not create its pods"
        raise RuntimeError(msg)
    answer: JSON = json.loads(line)
    return answer


def main(kubeconfig: str, prefix: str, clients: str) -> None:
    """Create pods as one of several processes, as many as each line says."""
    for number, line in enumerate(sys.stdin):
        created, ready = asyncio.run(
            created_until_ready(
                Path(kubeconfig), f"{prefix}-{number}", int(line), int(clients)
            )
        )
        sys.stdout.write(json.dumps({"created": created, "ready": ready}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
