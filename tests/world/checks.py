"""What must hold at every write, whichever controller sends it."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final
from unittest import mock

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.client.rest.transport import Request, Response
from controller_manager.runtime.worker import Workers

from .fights import Fights
from .loop import PROCESS, VirtualLoop
from .managers import Manager
from .objects import (
    FieldPath,
    Write,
    controller_of,
    differences,
    is_deleted,
    path_of,
    target_of,
    uid_of,
)
from .promises import Promises
from .world import World
from .writers import track_writers

MOST_SYNCS: Final = 100
"""Keys that one turn of the loop may sync."""

_ADOPTION: Final = 60.0
"""Seconds that may pass between reading an owner and adopting for it, since the
process may be stopped in between."""

UNCHECKED: Final = ("events", "leases")
"""Plurals of objects that every component writes, at any time."""

_REVIEWS: Final = ("subjectaccessreviews", "tokenreviews")
"""Plurals of questions, which are not stored."""

_AT_START: Final = (
    ("horizontalpodautoscalers", "status"),
    ("persistentvolumeclaims", "status"),
)
"""What is written at each start: without a memory of recommendations, an autoscaler has
other reasons; the expander takes up again what waits for a node."""

_LIFETIMES: Final = {"podcertificaterequests": 900.0}
"""Seconds after which an object goes, which may be when all managers start anew."""

_HANDED_OVER: Final = ("persistentvolumeclaims",)
"""Plurals of objects that pass from one controller to another: a claim passes from
its stateful set to a pod that is scaled away, and back."""

_SERVERS: Final[tuple[FieldPath, ...]] = (
    ("metadata", "resourceVersion"),
    ("metadata", "generation"),
    ("metadata", "managedFields"),
    ("metadata", "finalizers"),
    ("metadata", "ownerReferences"),
    ("metadata", "deletionTimestamp"),
    ("metadata", "deletionGracePeriodSeconds"),
    ("status",),
)
"""What may change in any object of a user."""

_ANNOTATIONS: Final = ("metadata", "annotations")
_CHANGED: Final[dict[str, tuple[FieldPath, ...]]] = {
    "clusterroles": (("rules",),),
    "configmaps": (("data",),),
    "deployments": (_ANNOTATIONS, ("spec", "replicas")),
    "namespaces": (("spec", "finalizers"), ("metadata", "labels")),
    "nodes": (
        _ANNOTATIONS,
        ("metadata", "labels"),
        ("spec", "taints"),
        ("spec", "podCIDR"),
        ("spec", "podCIDRs"),
    ),
    "persistentvolumeclaims": (
        _ANNOTATIONS,
        ("spec", "volumeName"),
        ("spec", "storageClassName"),
    ),
    "persistentvolumes": (_ANNOTATIONS, ("spec", "claimRef"), ("spec", "capacity")),
    "replicasets": (_ANNOTATIONS, ("spec", "replicas")),
    "replicationcontrollers": (("spec", "replicas"),),
    "endpoints": (_ANNOTATIONS,),
    "statefulsets": (("spec", "replicas"),),
    "secrets": (_ANNOTATIONS, ("metadata", "labels"), ("data",)),
    "serviceaccounts": (("secrets",),),
}
"""What else controllers may change in objects of users, by plural."""

_DELETED: Final = (
    "certificatesigningrequests",
    "jobs",
    "podcertificaterequests",
    "pods",
    "resourcepoolstatusrequests",
    "secrets",
    "storageversions",
)
"""Objects of users that controllers delete when their time is over."""


@dataclass
class Checks:
    """Checks every write of every manager."""

    world: World
    violations: list[str] = field(default_factory=list)
    writes: int = 0
    last_write: float = 0.0
    trace: list[str] = field(default_factory=list)
    calm: dict[str, list[str]] | None = field(default_factory=dict)
    """The accepted writes of each controller, as long as nothing has gone wrong."""

    fights: Fights | None = None
    """The fields that go back and forth, from the moment when no more faults happen."""

    is_final: bool = False
    """Nobody has anything to write any more."""

    promises: Promises = field(init=False)
    _syncs_of_turn: tuple[int, int, int] = (0, 0, 0)
    """A process, a turn of its loop, and the number of keys synced in that turn."""

    def __post_init__(self) -> None:
        self.promises = Promises(self.world)

    def of(self, manager: Manager) -> "Observer":
        """Return the observer of one manager."""
        return Observer(self, manager)

    def violate(self, what: str) -> None:
        """Record a violation, with the time."""
        now = asyncio.get_running_loop().time()
        self.violations.append(f"{now:10.3f} s  {what}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Find out, while entered, who writes, and how much is done in one turn."""
        process = Workers._process

        async def counted(workers: Workers, key: str) -> None:
            self._count_sync()
            await process(workers, key)

        with ExitStack() as stack:
            stack.enter_context(track_writers())
            stack.enter_context(mock.patch.object(Workers, "_process", counted))
            yield

    def _count_sync(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        number, turn, syncs = self._syncs_of_turn
        now = PROCESS.get(), loop.turn
        syncs = syncs + 1 if now == (number, turn) else 1
        self._syncs_of_turn = (*now, syncs)
        if syncs == MOST_SYNCS:
            self.violate(f"{syncs} keys were looked at in one turn of the event loop")


@dataclass
class Observer:
    """Checks the writes of one manager."""

    checks: Checks
    manager: Manager
    _read: dict[str, float] = field(default_factory=dict)
    """When an owner was last read without a deletion timestamp, by its uid."""

    def before_write(self, request: Request) -> JSON | None:
        """Return the object of a write, as it is before the write."""
        self.checks.promises.look()
        return self._object(request)

    def _object(self, request: Request) -> JSON | None:
        target = target_of(request.path)
        if not target.name:
            return None
        return self.checks.world.find(target.plural, target.namespace, target.name)

    def record_read(self, request: Request, answer: Response) -> None:
        """Record that an object, which may be an owner, is not being deleted."""
        if target_of(request.path).name and answer.status == 200:
            # A document of OpenAPI has no metadata.
            metadata = json.loads(answer.body).get("metadata", {})
            if "uid" in metadata and "deletionTimestamp" not in metadata:
                self._read[metadata["uid"]] = asyncio.get_running_loop().time()

    def after_write(
        self, request: Request, answer: Response, before: JSON | None, writer: str
    ) -> None:
        """Check a write. An error of a check is a defect; the manager never sees it."""
        try:
            self._check(request, answer, before, writer)
        except Exception as error:  # noqa: BLE001 - the run fails with it
            self.checks.world.defects.append(error)

    def _check(
        self, request: Request, answer: Response, before: JSON | None, writer: str
    ) -> None:
        checks, target = self.checks, target_of(request.path)
        is_told = target.plural == "events" and request.method == "POST"
        if is_told and checks.calm is not None:
            told = json.loads(request.body or b"")
            what = f"{told['involvedObject']['kind']} {told['reason']}"
            source = told["source"]["component"]
            checks.calm.setdefault(source, []).append(f"events {what}: tell")
        if target.plural in UNCHECKED:
            return
        now = asyncio.get_running_loop().time()
        checks.trace.append(
            f"{now:.6f} {self.manager.number} {request.method} {request.path} "
            f"{answer.status}"
        )
        self._check_leadership(request)
        if answer.status >= 300:
            return
        after = self._object(request)
        late = self.manager.is_paused
        write = Write(writer, target, request, answer, before, after, late)
        checks.writes += 1
        checks.last_write = now
        if checks.calm is not None and writer:
            checks.calm.setdefault(writer, []).append(write.kind_of())
        if checks.fights is not None:
            checks.fights.record(write)
        if write.verb == "create" and "uid" in write.created.get("metadata", {}):
            checks.world.made[uid_of(write.created)] = target.plural
        for problem in (*self._owners(write), *self._losses(write)):
            checks.violate(f"{write}: {problem}")
        second = checks.is_final and not self._is_due_now(write)
        if second and (what := _second_thoughts(write)):
            checks.violate(f"{write}: a manager that starts anew writes: {what}")
        for problem in checks.promises.broken_by(write):
            checks.violate(f"{write}: {problem}")

    def _is_due_now(self, write: Write) -> bool:
        """Tell whether an object is deleted because its time has come just now."""
        lifetime = _LIFETIMES.get(write.target.plural)
        if lifetime is None or write.before is None or write.verb != "delete":
            return False
        created = parse_time(write.before["metadata"]["creationTimestamp"])
        age = (self.checks.world.clock.now() - created).total_seconds()
        return lifetime <= age < lifetime + 5

    def _check_leadership(self, request: Request) -> None:
        if self.manager.is_paused:
            return  # it was sent in time, and cannot be cancelled any more
        daemon = self.manager.manager
        elector = daemon.elector if daemon is not None else None
        if elector is None:
            return
        lease = self.checks.world.find("leases", "kube-system", _LEASE)
        holder = lease["spec"].get("holderIdentity") if lease else None
        if holder != elector.identity:
            self.checks.violate(
                f"manager {self.manager.number} wrote {request.method} {request.path} "
                f"while {holder} holds the lease"
            )

    def _owners(self, write: Write) -> Iterator[str]:
        """Yield owners that are replaced, or that adopt although they may be gone."""
        if write.before is None or write.after is None or write.verb == "delete":
            return
        old, new = controller_of(write.before), controller_of(write.after)
        if old and new and old != new and write.target.plural not in _HANDED_OVER:
            yield f"taken from its owner {old} by {new}"
        now = asyncio.get_running_loop().time()
        if new and not old and self._read.get(new, -_ADOPTION) + _ADOPTION <= now:
            yield f"adopted by {new}, who may be gone"

    def _losses(self, write: Write) -> Iterator[str]:
        """Yield what a user made and a controller takes away."""
        world, before, plural = self.checks.world, write.before, write.target.plural
        if before is None or uid_of(before) not in world.by_users:
            return
        if write.verb == "delete":
            if self._is_kept(before) and plural not in _DELETED:
                yield "a user made it and has not deleted it"
        elif write.after is not None and not write.target.subresource:
            allowed = (*_SERVERS, *_CHANGED.get(plural, ()))
            for path, old, new in differences(before, write.after):
                is_token = path == ("data", "token") and old is not None
                if is_token or not any(path[: len(each)] == each for each in allowed):
                    yield f"changed {'.'.join(path)} of a user: {old} to {new}"

    def _is_kept(self, obj: JSON) -> bool:
        """Tell whether an object has no owner, and nobody deleted it or its space."""
        world, metadata = self.checks.world, obj["metadata"]
        space = world.find("namespaces", "", metadata.get("namespace", ""))
        return (
            uid_of(obj) not in world.dismissed
            and not is_deleted(obj)
            and not (space is not None and is_deleted(space))
            and "ownerReferences" not in metadata  # `promises` says when it may go
        )


def _second_thoughts(write: Write) -> str:
    """Return what a manager changes that has just started, empty for nothing."""
    target = write.target
    if target.plural in _REVIEWS or (target.plural, target.subresource) in _AT_START:
        return ""
    if write.verb in ("create", "delete"):
        return write.verb
    changed = [path for path, *_ in differences(write.before, write.after)]
    if not changed and write.verb == "update":
        return "what is there already"
    return ", ".join(".".join(each) for each in changed if each not in _SERVERS)


_SHOWN: Final = 4
_LEASE: Final = "kube-controller-manager"


def wrong_caches(world: World) -> Iterator[str]:
    """Yield each cache of a running manager that differs from the server."""
    for manager in world.managers:
        daemon = manager.manager
        if daemon is None or not daemon.synced.is_set():
            yield f"manager {manager.number} is not synced"
            continue
        for informer in daemon.informers.all():
            if informer.resource.plural in UNCHECKED:
                continue
            collection = world.server.storage.collection(
                informer.resource.group_resource
            )
            server = {
                path_of(each.obj): each.obj["metadata"]["resourceVersion"]
                for each in collection
            }
            cached = {
                f"{each.metadata.namespace}/{each.metadata.name}": (
                    each.metadata.resource_version
                )
                for each in informer.store
            }
            if informer.resource.field_selector:
                server = {key: server[key] for key in server.keys() & cached.keys()}
            if server != cached:
                differing = sorted(set(server.items()) ^ set(cached.items()))[:_SHOWN]
                plural = informer.resource.plural
                yield (
                    f"manager {manager.number}: its cache of {plural} has "
                    f"{len(cached)}, the server {len(server)}: {differing}"
                )
