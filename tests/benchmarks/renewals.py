"""Nodes that only renew themselves, in the process of the development cluster.

Their requests are left out: they would cost the driver more than the watches cost a
manager.
"""

import asyncio
import itertools
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_micro_time, format_time
from controller_manager.clock import Clock
from controller_manager.devcluster.storage import Storage

RENEWAL: Final = 10.0
"""Seconds between two renewals of a node's lease."""

STATUS: Final = 300.0
"""Seconds between two posts of a node's status, as long as nothing changes."""

_TURN: Final = 0.01
_LEASES: Final = "kube-node-lease"
_CONDITIONS: Final = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID"),
    "Ready": ("True", "KubeletReady"),
}
_IMAGES: Final = [
    {
        "names": [f"registry.example.com/team/image-{number}@sha256:{number:064x}"],
        "sizeBytes": 100_000_000 + number,
    }
    for number in range(50)
]
"""As many images as a kubelet reports; a node has about 8 kB with them."""


class Renewals:
    """Makes nodes with leases, and renews both without admission."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        """Take the storage of the API server, and its clock."""
        self._nodes = storage.collection("nodes")
        self._leases = storage.collection("leases.coordination.k8s.io")
        self._clock = clock
        self._names: list[str] = []

    def add(self, count: int) -> None:
        """Create so many nodes that are ready, each with a lease."""
        for number in range(count):
            name = f"renewing-{number:05}"
            self._names.append(name)
            self._nodes.put(("", name), self._node(name, number))
            self._leases.put((_LEASES, name), self._lease(name, number))

    async def run(self, seconds: float) -> JSON:
        """Renew leases and post statuses, evenly spread; return how many."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        steps = {
            "leases": (self._renew, len(self._names) / RENEWAL),
            "statuses": (self._post, len(self._names) / STATUS),
        }
        done = dict.fromkeys(steps, 0)
        turns: dict[str, Iterator[str]] = {
            each: itertools.cycle(self._names) for each in steps
        }
        while (passed := loop.time() - started) < seconds:
            for what, (act, rate) in steps.items():
                while done[what] < rate * passed:
                    act(next(turns[what]))
                    done[what] += 1
            await asyncio.sleep(_TURN)
        return {**done, "seconds": loop.time() - started}

    def _renew(self, name: str) -> None:
        stored = self._leases.get((_LEASES, name))
        assert stored is not None
        spec = {**stored.obj["spec"], "renewTime": self._micro_time()}
        self._leases.put((_LEASES, name), {**stored.obj, "spec": spec})

    def _post(self, name: str) -> None:
        stored = self._nodes.get(("", name))
        assert stored is not None
        status = {**stored.obj["status"], "conditions": self._conditions()}
        self._nodes.put(("", name), {**stored.obj, "status": status})

    def _node(self, name: str, number: int) -> JSON:
        return {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "uid": str(uuid.UUID(int=number, version=4)),
                "creationTimestamp": format_time(self._clock.now() - timedelta(days=1)),
                "labels": {
                    "kubernetes.io/hostname": name,
                    "topology.kubernetes.io/region": "r",
                    "topology.kubernetes.io/zone": f"z{number % 3}",
                },
            },
            "spec": {},
            "status": {"conditions": self._conditions(), "images": _IMAGES},
        }

    def _lease(self, name: str, number: int) -> JSON:
        return {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {
                "name": name,
                "namespace": _LEASES,
                "uid": str(uuid.UUID(int=2**64 + number, version=4)),
            },
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": 40,
                "renewTime": self._micro_time(),
            },
        }

    def _conditions(self) -> list[JSON]:
        now = format_time(self._clock.now())
        return [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": "kubelet is posting status",
                "lastHeartbeatTime": now,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for kind, (status, reason) in _CONDITIONS.items()
        ]

    def _micro_time(self) -> str:
        return format_micro_time(self._clock.now())
