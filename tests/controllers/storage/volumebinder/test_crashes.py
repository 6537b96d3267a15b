"""From every state that a claim and a volume can be found in, crashed at every write.

Each state has a namespace, a volume and a class of its own. One manager works on all of
them. A process "crashes" for a state at its n-th write, right before it or right after:
from then on every request about that state fails. When all is quiet, another process
takes over. It must end where an undisturbed one ends.
"""

import asyncio
import itertools
import re
from collections import Counter
from typing import Final, NamedTuple

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.storage.volumebinder.options import (
    VolumeBinderOptions,
)
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster, RecordingTransport, make_config

pytestmark = [pytest.mark.looptime, pytest.mark.slow]

CLAIMS: Final = (
    "absent",
    "new",
    "asks",
    "asks, marked by the controller",
    "chosen a node",
    "named",
    "bound",
    "bound elsewhere",
    "lost",
    "bound without a name",
)
VOLUMES: Final = (
    "absent",
    "new",
    "available",
    "reserved",
    "bound by the scheduler",
    "referring",
    "bound",
    "provisioned",
    "of a former claim",
    "of another claim",
    "failed",
    "too small",
)
CLASSES: Final = ("absent", "immediate", "waiting")

_PROVISIONERS: Final = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)

_PATTERNS: Final = ("before", "after")
_MOST_WRITES: Final = 5
"""A binding takes four writes; unbinding a volume before takes two."""


class State(NamedTuple):
    """The states of a claim, its volume and its class at the beginning."""

    number: int
    claim: str
    volume: str
    storage_class: str


STATES: Final = [
    State(number, *each)
    for number, each in enumerate(itertools.product(CLAIMS, VOLUMES, CLASSES))
]

_STATE: Final = re.compile(r"/(?:namespaces/s|persistentvolumes/v)(\d+)(?:/|$)")


class Crashing(RecordingTransport):
    """Ends the process, for each state, at the n-th write about it."""

    def __init__(self, cluster: Cluster, write: int, pattern: str) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._write = write
        self._pattern = pattern
        self._sent: Counter[str] = Counter()
        self.dead: set[str] = set()
        """The states for which the process has ended."""

    async def request(self, request: Request) -> Response:
        found = _STATE.search(request.path)
        state = found[1] if found else ""
        if state in self.dead:
            raise TransportError(state)
        writes = request.method != "GET" and "/events" not in request.path
        if not state or not writes:
            return await super().request(request)
        self._sent[state] += 1
        if self._sent[state] == self._write:
            self.dead.add(state)
            if self._pattern == "after":
                await super().request(request)
            raise TransportError(state)
        return await super().request(request)


class Builder:
    """Stores the objects of a state."""

    def __init__(self, cluster: Cluster, state: State) -> None:
        self._cluster = cluster
        self._state = state
        self.name = f"s{state.number}"
        self.volume = f"v{state.number}"
        self.uid = "none"

    def build(self) -> None:
        """Store class, claim and volume."""
        self._cluster.add_namespace(self.name)
        if self._state.storage_class != "absent":
            waits = self._state.storage_class == "waiting"
            mode = "WaitForFirstConsumer" if waits else "Immediate"
            self._store(
                "StorageClass",
                {
                    "metadata": {"name": self.name},
                    "provisioner": "csi.example.com",
                    "volumeBindingMode": mode,
                },
                api="storage.k8s.io/v1",
            )
        if self._state.claim != "absent":
            self._claim(self._state.claim)
        if self._state.volume != "absent":
            self._volume(self._state.volume)

    def _store(
        self, kind: str, obj: JSON, status: JSON | None = None, api: str = "v1"
    ) -> JSON:
        found = self._cluster.server.catalogue.of(api, kind)
        assert found is not None
        objects = self._cluster.server.objects
        namespace = self.name if found.namespaced else ""
        stored = objects.create(found, namespace, obj).obj
        if status is None:
            return stored
        name, body = obj["metadata"]["name"], {**stored, "status": status}
        return objects.update(found, namespace, name, body, "status").obj

    def _claim(self, kind: str) -> None:
        marks, spec, phase = {
            "new": ("", "", "Pending"),
            "asks": ("", self.volume, "Pending"),
            "asks, marked by the controller": ("by", self.volume, "Pending"),
            "chosen a node": ("node", "", "Pending"),
            "named": ("by done", self.volume, "Pending"),
            "bound": ("by done", self.volume, "Bound"),
            "bound elsewhere": ("by done", "elsewhere", "Bound"),
            "lost": ("by done", self.volume, "Lost"),
            "bound without a name": ("by done", "", "Bound"),
        }[kind]
        known = {
            "by": "pv.kubernetes.io/bound-by-controller",
            "done": "pv.kubernetes.io/bind-completed",
            "node": "volume.kubernetes.io/selected-node",
        }
        annotations = {known[each]: "yes" for each in marks.split()}
        status: JSON = {"phase": phase}
        if phase == "Bound":
            status |= {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
            }
        stored = self._store(
            "PersistentVolumeClaim",
            {
                "metadata": {"name": "data", "annotations": annotations},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": self.name,
                    **({"volumeName": spec} if spec else {}),
                },
            },
            status,
        )
        self.uid = stored["metadata"]["uid"]

    def _volume(self, kind: str) -> None:
        reference = {"namespace": self.name, "name": "data", "kind": "x"}
        mine = {**reference, "uid": self.uid}
        by = {"pv.kubernetes.io/bound-by-controller": "yes"}
        provisioned = {"pv.kubernetes.io/provisioned-by": "csi.example.com"}
        claim_ref, annotations, phase = {
            "new": (None, {}, "Pending"),
            "available": (None, {}, "Available"),
            "reserved": (reference, {}, "Available"),
            "bound by the scheduler": (mine, by, "Available"),
            "referring": (mine, {}, "Pending"),
            "bound": (mine, by, "Bound"),
            "provisioned": (mine, provisioned, "Pending"),
            "of a former claim": ({**reference, "uid": "former"}, by, "Released"),
            "of another claim": ({**reference, "name": "b", "uid": "b"}, by, "Bound"),
            "failed": (mine, by, "Failed"),
            "too small": (None, {}, "Available"),
        }[kind]
        self._store(
            "PersistentVolume",
            {
                "metadata": {"name": self.volume, "annotations": annotations},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "capacity": {"storage": "1Mi" if kind == "too small" else "1Gi"},
                    "persistentVolumeReclaimPolicy": (
                        "Delete" if kind == "provisioned" else "Retain"
                    ),
                    "storageClassName": self.name,
                    "csi": {"driver": "csi.example.com", "volumeHandle": self.volume},
                    **({"claimRef": claim_ref} if claim_ref else {}),
                },
            },
            {"phase": phase},
        )


def stored(cluster: Cluster, plural: str) -> list[JSON]:
    """Return all objects of a resource."""
    return [each.obj for each in cluster.server.storage.collection(plural)]


def outcome(cluster: Cluster) -> dict[str, JSON]:
    """Return the visible fields of each volume and claim, and their bindings.

    Which provisioner a bound claim asked before is left out: it asks one if it is
    looked at before its volume becomes available, and workers race for that.
    """
    seen = {}
    for each in (
        *stored(cluster, "persistentvolumes"),
        *stored(cluster, "persistentvolumeclaims"),
    ):
        metadata, spec = each["metadata"], each["spec"]
        reference = spec.get("claimRef", {})
        name = f"{metadata.get('namespace', 'volume')}/{metadata['name']}"
        bound = each["status"]["phase"] == "Bound"
        seen[name] = {
            "annotations": {
                key: value
                for key, value in metadata.get("annotations", {}).items()
                if not (bound and key in _PROVISIONERS)
            },
            "volume": spec.get("volumeName"),
            "refers": (reference.get("name"), bool(reference.get("uid"))),
            "status": {
                key: value
                for key, value in each["status"].items()
                if key != "lastPhaseTransitionTime"
            },
        }
    return seen


def double_bindings(volumes: list[JSON], claims: list[JSON]) -> list[str]:
    """Return the volumes that two claims have, and the claims with two volumes.

    A claim has a volume if it is Bound, or has been, and names it, and the volume
    refers to its uid.
    """
    uids = {each["metadata"]["uid"]: each for each in claims}
    holders = Counter(
        _named(each)
        for each in claims
        if _phase(each) == "Bound" and _refers_back(each, volumes)
    )
    found = [f"{name} is bound to {n} claims" for name, n in holders.items() if n > 1]
    bound = Counter(
        _uid(each)
        for each in volumes
        if _phase(each) == "Bound"
        and (claim := uids.get(_uid(each))) is not None
        and _named(claim) == each["metadata"]["name"]
    )
    return found + [f"{uid} has {n} volumes" for uid, n in bound.items() if n > 1]


def _refers_back(claim: JSON, volumes: list[JSON]) -> bool:
    name, uid = _named(claim), claim["metadata"]["uid"]
    return any(
        each["metadata"]["name"] == name and _uid(each) in ("", uid) for each in volumes
    )


def _uid(volume: JSON) -> str:
    uid: str = volume["spec"].get("claimRef", {}).get("uid", "")
    return uid


def _named(claim: JSON) -> str:
    name: str = claim["spec"].get("volumeName", "")
    return name


def _phase(obj: JSON) -> str:
    phase: str = obj.get("status", {}).get("phase", "")
    return phase


CONFIG: Final = make_config(controllers=("persistentvolume-binder",))


async def settle(cluster: Cluster, *transports: Crashing | None) -> dict[str, JSON]:
    """Run one manager after the other; return the final state."""
    for transport in transports:
        async with cluster.manager(CONFIG, transport):
            await asyncio.sleep(VolumeBinderOptions().sync_period * 1.5)
        assert (
            double_bindings(
                stored(cluster, "persistentvolumes"),
                stored(cluster, "persistentvolumeclaims"),
            )
            == []
        )
    return outcome(cluster)


def cluster_of_all_states() -> Cluster:
    """Return a cluster with a namespace for each state."""
    cluster = Cluster()
    for state in STATES:
        Builder(cluster, state).build()
    return cluster


@pytest.mark.parametrize("pattern", _PATTERNS)
async def test_a_crash_at_any_write_from_any_state_changes_nothing(
    pattern: str,
) -> None:
    """The next process continues from the stored state."""
    undisturbed = await settle(cluster_of_all_states(), None)
    assert len(undisturbed) == sum(
        (each.claim != "absent") + (each.volume != "absent") for each in STATES
    )
    crashes = []
    for write in range(1, _MOST_WRITES + 1):
        cluster = cluster_of_all_states()
        transport = Crashing(cluster, write, pattern)
        found = await settle(cluster, transport, None)
        crashes.append(len(transport.dead))
        wrong = {
            name: (found[name], expected)
            for name, expected in undisturbed.items()
            if found[name] != expected
        }
        assert wrong == {}, f"write {write}"
    assert crashes == sorted(crashes, reverse=True)
    assert min(crashes) > 5
