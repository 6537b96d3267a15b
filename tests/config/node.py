"""Act as the kubelet of a control plane node that runs controller managers.

Each pod with a controller manager is played by a manager in this process, with the
arguments, the identity and the rights that the pod has. The other pods are left to the
simulated kubelets of the development cluster.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec
import yaml

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import Client, DeleteOptions, WatchOptions
from controller_manager.client.rest.errors import NotFound, TransportError
from controller_manager.client.rest.serializer import Added, Bookmark, Deleted, Modified
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.clock import SystemClock
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.cluster import DevCluster
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.devcluster.registry.core.secrets import uid_of_account
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import Config, ServingConfig
from controller_manager.registry import registry
from tests.config.accounts import account_of
from tests.config.control_plane import KUBERNETES, MANIFEST
from tests.config.manifests import arguments_of, config_of, container_of
from tests.streams import PassedTransport

IMAGE: Final = "registry.example.com/controller-manager:0.4.1"
UPSTREAM: Final = "registry.k8s.io/kube-controller-manager"
NODE: Final = "node-0"

_LIFETIME: Final = timedelta(hours=1)
_POD_NAME: Final = f"kube-controller-manager-{NODE}"


@dataclass
class Wire(PassedTransport):
    """The connection of one process: it is cut when the process is killed."""

    note: Callable[[str], None]
    is_cut: bool = False

    async def request(self, request: Request) -> Response:
        self._check()
        if request.method != "GET":
            self.note(account_of(request))
        return await self.inner.request(request)

    async def stream(self, request: Request) -> Stream:
        self._check()
        return await self.inner.stream(request)

    def _check(self) -> None:
        if self.is_cut:
            msg = "the process has ended"
            raise TransportError(msg)


@dataclass
class Container:
    """A manager that runs in the place of a container."""

    manager: ControllerManager
    wires: tuple[Wire, ...]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    running: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        self.running = asyncio.create_task(self.manager.run(self.stop))

    async def is_ready(self) -> None:
        """Wait until the caches are synced; raise what ended the manager before."""
        assert self.running is not None
        synced = asyncio.create_task(self.manager.synced.wait())
        try:
            await asyncio.wait(
                (self.running, synced), return_when=asyncio.FIRST_COMPLETED
            )
            if self.running.done():
                self.running.result()
        finally:
            synced.cancel()

    async def end(self, *, is_killed: bool) -> None:
        """Stop as after SIGTERM, or end as kube-controller-manager does.

        That one releases no lease.
        """
        assert self.running is not None
        self.stop.set()
        if is_killed:
            for each in self.wires:
                each.is_cut = True
            self.running.cancel()
            with suppress(asyncio.CancelledError):
                await self.running
            return
        await self.running


class Node:
    """The control plane node: its static pod, and the pods of the cluster."""

    def __init__(
        self, root: Path, cluster: DevCluster, client: Client, preview_port: int
    ) -> None:
        """Take the root of the node's files, and the administrator's client.

        `preview_port` is the port of this machine to which that of a preview is
        forwarded: the simulated nodes forward none.
        """
        self.root = root
        self._cluster = cluster
        self._client = client
        self._preview_port = preview_port
        self._static: tuple[str, Container] | None = None
        self._pods: dict[str, Container] = {}
        self.writers: dict[str, list[str]] = {}
        """The managers that acted as each controller's account, in order of writes."""
        self.failures: list[str] = []

    async def sync(self) -> None:
        """Do what a kubelet does about a changed folder of manifests."""
        folder = (self.root / MANIFEST).parent
        files = [each for each in folder.iterdir() if not each.name.startswith(".")]
        assert len(files) <= 1, f"the kubelet runs each of {files}"
        text = files[0].read_text() if files else ""
        if self._static is not None and self._static[0] == text:
            return
        await self._end_static()
        if text:
            await self._start_static(text, yaml.safe_load(text))

    async def close(self) -> None:
        await self._end_static()
        for each in self._pods.values():
            await each.end(is_killed=False)

    async def _start_static(self, text: str, pod: JSON) -> None:
        container = container_of(pod)
        is_upstream = container["image"].startswith(UPSTREAM)
        program = "kube-controller-manager" if is_upstream else "controller-manager"
        assert container["command"][0] == program
        assert is_upstream or container["image"] == IMAGE
        arguments = [
            each.replace("/etc/kubernetes", str(self.root / KUBERNETES))
            for each in arguments_of(pod)
        ]
        manager = self._container(config_of(arguments), MANAGER, "static pod")
        if is_upstream and manager.manager.elector is not None:
            manager.manager.elector.identity = f"{NODE}_{uuid.uuid4()}"
        manager.start()
        await manager.is_ready()
        self._static = (text, manager)
        await self._client.create_json(PODS, "kube-system", _mirror(pod))

    async def _end_static(self) -> None:
        if self._static is None:
            return
        text, container = self._static
        self._static = None
        await container.end(is_killed=UPSTREAM in text)
        now = DeleteOptions(grace_period_seconds=0)
        with suppress(NotFound):
            await self._client.delete(PODS, "kube-system", _POD_NAME, now)

    async def follow_pods(self) -> None:
        """Run a manager for each pod of the cluster that has its image, for ever."""
        while True:
            options = WatchOptions(send_initial_events=True)
            async with aclosing(self._client.watch(PODS, "", options)) as stream:
                async for batch in stream:
                    for event in batch:
                        match event:
                            case Added(object=pod) | Modified(object=pod):
                                await self._seen(pod)
                            case Deleted(object=pod):
                                await self._gone(pod.metadata.uid)
                            case Bookmark():
                                pass

    async def _seen(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if pod.metadata.deletion_timestamp:
            await self._gone(uid)
            return
        raw = await self._stored(pod)
        if raw is None or not raw["spec"].get("nodeName") or uid in self._pods:
            return
        account = raw["spec"].get("serviceAccountName", "")
        if container_of(raw)["image"] != IMAGE or not account:
            return  # Another program, or the image of a static pod.
        config = config_of(arguments_of(raw))
        port = self._preview_port if config.preview.enabled else 0
        config = replace(config, serving=ServingConfig(port, "127.0.0.1"))
        namespace = pod.metadata.namespace
        token = self._token(namespace, account)
        container = self._pods[uid] = self._container(config, token, namespace)
        container.start()
        assert container.running is not None
        container.running.add_done_callback(self._note_failure)

    async def _gone(self, uid: str) -> None:
        container = self._pods.pop(uid, None)
        if container is not None:
            await container.end(is_killed=False)

    def _note_failure(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(repr(error))

    async def _stored(self, pod: Pod) -> JSON | None:
        stored = self._cluster.server.storage.collection("pods").get(
            (pod.metadata.namespace, pod.metadata.name)
        )
        return None if stored is None else stored.obj

    def _token(self, namespace: str, account: str) -> str:
        server = self._cluster.server
        uid = uid_of_account(server.storage, namespace, account)
        assert uid is not None
        ends_at = server.objects.clock.now() + _LIFETIME
        return server.tokens.issue(namespace, account, uid, ends_at)

    def _container(self, config: Config, identity: str, label: str) -> Container:
        """Return a manager with the identity of a token, or of kubeadm's user."""
        server = self._cluster.server
        if identity == MANAGER:
            identity = f"manager-{uuid.uuid4()}"
            server.tokens.add(identity, User(MANAGER))

        def note(account: str) -> None:
            seen = self.writers.setdefault(account, [])
            if seen[-1:] != [label]:
                seen.append(label)

        own = Wire(InMemoryTransport(server, identity), note)
        anonymous = Wire(InMemoryTransport(server), note)
        manager = ControllerManager(
            config,
            Connections(own, anonymous, own, own),
            clock=SystemClock(),
            rng=random.Random(),
            logger=silent_logger(),
            build=registry(),
        )
        return Container(manager, (own, anonymous))


def _mirror(pod: JSON) -> bytes:
    """Return the pod by which the API server shows a static pod."""
    metadata = {
        **pod["metadata"],
        "name": _POD_NAME,
        "annotations": {"kubernetes.io/config.mirror": "1"},
    }
    spec = {**pod["spec"], "nodeName": NODE}
    mirrored = {**pod, "metadata": metadata, "spec": spec}
    mirrored.pop("status", None)
    return msgspec.json.encode(mirrored)


@asynccontextmanager
async def running_node(
    root: Path, cluster: DevCluster, client: Client, preview_port: int
) -> AsyncIterator[Node]:
    """Run a control plane node while entered; its manager is ready."""
    node = Node(root, cluster, client, preview_port)
    following = asyncio.create_task(node.follow_pods())
    try:
        await node.sync()
        yield node
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await node.close()
    assert node.failures == []
