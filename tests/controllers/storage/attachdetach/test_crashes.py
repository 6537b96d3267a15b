"""From every state that a volume and its node can be found in, crashed at every write.

Each state has two nodes and a volume of its own. One manager works on all of them. A
process "crashes" for a state at its n-th write, right before it or right after: from
then on every request about that state fails. When all is quiet, another process takes
over. It must end where an undisturbed one ends.
"""

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.storage.attachdetach.volumes import csi_name
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, RecordingTransport
from tests.controllers.storage.attachdetach.cluster import (
    DRIVER,
    READY,
    Storage,
    config,
)
from tests.world.runner import run

pytestmark = pytest.mark.slow

PODS: Final = ("none", "here", "ended", "moved")
CLAIMS: Final = ("bound", "pending", "volume gone")
ATTACHMENTS: Final = ("none", "asked", "attached", "failing", "leaving")
NODES: Final = (
    "unlisted, unused",
    "unlisted, used",
    "listed, unused",
    "listed, used",
    "listed, used, out of service",
    "listed, used, gone",
)

_FINALIZER: Final = "external-attacher/csi-example-com"


class State(NamedTuple):
    """The states of a pod, its claim, its attachment and its node at the beginning."""

    number: int
    pod: str
    claim: str
    attachment: str
    node: str

    @property
    def here(self) -> str:
        """The node that may have the volume at the beginning."""
        return f"s{self.number}-a"

    @property
    def there(self) -> str:
        """The node to which the pod may have moved."""
        return f"s{self.number}-b"

    @property
    def volume(self) -> str:
        """The volume, its claim, and its handle."""
        return f"s{self.number}"


STATES: Final = [
    State(number, *each)
    for number, each in enumerate(itertools.product(PODS, CLAIMS, ATTACHMENTS, NODES))
]

_NODE: Final = re.compile(r"/nodes/s(\d+)-[ab](?:/|$)")


def build(cluster: Storage, state: State) -> None:
    """Store the objects of a state."""
    status: JSON = {"conditions": [READY]}
    name = csi_name(DRIVER, state.volume)
    if "unused" not in state.node:
        status["volumesInUse"] = [name]
    if "unlisted" not in state.node:
        status["volumesAttached"] = [{"name": name, "devicePath": ""}]
    cluster.node(state.here, status=status)
    cluster.node(state.there)
    cluster.volume(state.volume)
    if state.claim == "pending":
        cluster.edit(
            "persistentvolumeclaims",
            state.volume,
            lambda obj: obj.update(status={"phase": "Pending"}),
            "status",
        )
    if state.pod != "none":
        node = state.there if state.pod == "moved" else state.here
        cluster.pod(f"{state.volume}-pod", node, state.volume)
    if state.pod == "ended":
        cluster.edit(
            "pods",
            f"{state.volume}-pod",
            lambda obj: obj["status"].update(phase="Succeeded"),
            "status",
        )
    if state.attachment != "none":
        _attach(cluster, state)
    if state.claim == "volume gone":
        cluster.drop("persistentvolumes", state.volume)
    if "out of service" in state.node:
        cluster.taint(state.here)
    if "gone" in state.node:
        cluster.drop("nodes", state.here)


def _attach(cluster: Storage, state: State) -> None:
    attached = state.attachment in {"attached", "leaving"}
    error = {"attachError": {"message": "no disk"}}
    name = cluster.name(state.volume, state.here)
    cluster.add(
        "VolumeAttachment",
        name,
        api="storage.k8s.io/v1",
        metadata={"name": name, "finalizers": [_FINALIZER]},
        spec={
            "attacher": DRIVER,
            "nodeName": state.here,
            "source": {"persistentVolumeName": state.volume},
        },
        status={"attached": attached}
        | (error if state.attachment == "failing" else {}),
    )
    if state.attachment == "leaving":
        cluster.remove("volumeattachments", name)


class Crashing(RecordingTransport):
    """Ends the process, for each state, at the n-th write about it.

    It also checks each write: of exclusive volumes, and of volumes in use.
    """

    def __init__(self, cluster: Storage, write: int, pattern: str) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._cluster = cluster
        self._write = write
        self._pattern = pattern
        self._sent: Counter[str] = Counter()
        self._dead: set[str] = set()
        self._states = {
            cluster.name(state.volume, node): state
            for state in STATES
            for node in (state.here, state.there)
        }
        self.wrong: list[str] = []

    def _state(self, request: Request) -> str:
        if (found := _NODE.search(request.path)) is not None:
            return found[1]
        name = request.path.rpartition("/")[2]
        if request.method == "POST" and name == "volumeattachments":
            name = json.loads(request.body or b"")["metadata"]["name"]
        state = self._states.get(name)
        return str(state.number) if state is not None else ""

    async def request(self, request: Request) -> Response:
        state = self._state(request)
        if state in self._dead:
            raise TransportError(state)
        if not state or request.method == "GET":
            return await super().request(request)
        self._sent[state] += 1
        if self._sent[state] == self._write:
            self._dead.add(state)
            if self._pattern == "after":
                await self._checked(request)
            raise TransportError(state)
        return await self._checked(request)

    async def _checked(self, request: Request) -> Response:
        name = request.path.rpartition("/")[2]
        if request.method == "DELETE":
            self._check_deletion(self._states[name], name)
        answer = await super().request(request)
        if request.method == "POST":
            self._check_nodes(self._states[json.loads(answer.body)["metadata"]["name"]])
        return answer

    def _check_deletion(self, state: State, name: str) -> None:
        node = (
            state.here if self._cluster.name(state.volume, state.here) == name else ""
        )
        if node != state.here or "gone" in state.node:
            return
        status = self._cluster.stored("nodes", node)["status"]
        unique = csi_name(DRIVER, state.volume)
        listed = [each["name"] for each in status.get("volumesAttached") or ()]
        if unique in listed:
            self.wrong.append(f"{state}: deleted while it is listed")
        used = unique in (status.get("volumesInUse") or ())
        if used and "out of service" not in state.node:
            self.wrong.append(f"{state}: deleted while it is in use")

    def _check_nodes(self, state: State) -> None:
        nodes = [
            obj["spec"]["nodeName"]
            for obj in self._cluster.all("volumeattachments")
            if obj["spec"]["source"]["persistentVolumeName"] == state.volume
        ]
        if len(nodes) > 1:
            self.wrong.append(f"{state}: attached to {nodes}")


async def drive(cluster: Storage) -> None:
    """Play the driver: attach and detach the volumes of all attachments."""
    while True:
        for obj in cluster.all("volumeattachments"):
            name, metadata = obj["metadata"]["name"], obj["metadata"]
            if "deletionTimestamp" in metadata:
                cluster.edit(
                    "volumeattachments",
                    name,
                    lambda each: each["metadata"].pop("finalizers", None),
                )
            elif not obj["status"].get("attached"):
                cluster.edit(
                    "volumeattachments",
                    name,
                    lambda each: each.update(status={"attached": True}),
                    "status",
                )
        await asyncio.sleep(3)


@asynccontextmanager
async def driving(cluster: Storage) -> AsyncGenerator[None, None]:
    """Run the driver while entered."""
    task = asyncio.create_task(drive(cluster))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def unmount(cluster: Storage) -> None:
    """Have the kubelets report that they use only what their pods need."""
    for state in STATES:
        if "gone" not in state.node and state.pod != "here":
            cluster.in_use(state.here)


def ends(cluster: Storage) -> dict[int, Any]:
    """Return the nodes of each state's volume, and where it is listed."""
    attached: dict[str, list[tuple[str, bool]]] = {}
    for obj in cluster.all("volumeattachments"):
        volume = obj["spec"]["source"]["persistentVolumeName"]
        found = (obj["spec"]["nodeName"], bool(obj["status"].get("attached")))
        attached.setdefault(volume, []).append(found)
    listed = {
        obj["metadata"]["name"]: len(obj["status"].get("volumesAttached") or ())
        for obj in cluster.all("nodes")
    }
    return {
        state.number: (
            sorted(attached.get(state.volume, [])),
            listed.get(state.here, 0),
            listed.get(state.there, 0),
        )
        for state in STATES
    }


async def play(write: int, pattern: str) -> tuple[dict[int, Any], list[str]]:
    """Return the ends of the states after a crash at a write, and the faults seen."""
    cluster = Storage()
    for state in STATES:
        build(cluster, state)
    first, second = Crashing(cluster, write, pattern), Crashing(cluster, 0, "")
    async with driving(cluster):
        async with cluster.manager(config(), first):
            await asyncio.sleep(20)
        async with cluster.manager(config(), second):
            await asyncio.sleep(10)
            unmount(cluster)
            await asyncio.sleep(500)
    return ends(cluster), first.wrong + second.wrong


def expected(state: State) -> Any:
    """Return the end of a state whose claim is bound and whose node exists."""
    if state.pod == "here":
        return [(state.here, True)], 1, 0
    if state.pod == "moved":
        return [(state.there, True)], 0, 1
    return [], 0, 0


_CRASHES: Final = [(1, "before"), *((write, "after") for write in range(1, 5))]
"""A crash before a later write is the same as a crash after the previous write."""


@pytest.fixture(scope="module")
def undisturbed() -> dict[int, Any]:
    """Return the ends of the states without a crash."""
    found, wrong = run(play(0, ""))
    assert wrong == []
    return found


def test_every_state_ends_as_its_pod_needs(undisturbed: dict[int, Any]) -> None:
    """The claim is bound, and the node exists."""
    clear = [
        each for each in STATES if each.claim == "bound" and "gone" not in each.node
    ]
    assert {each: undisturbed[each.number] for each in clear} == {
        each: expected(each) for each in clear
    }


@pytest.mark.parametrize(("write", "pattern"), _CRASHES)
def test_a_crash_at_any_write_changes_nothing(
    write: int, pattern: str, undisturbed: dict[int, Any]
) -> None:
    """The next process ends where an undisturbed one ends."""
    found, wrong = run(play(write, pattern))
    assert wrong == []
    assert {
        STATES[number]: end
        for number, end in found.items()
        if end != undisturbed[number]
    } == {}
