"""The cluster of one seed: its API server, its nodes, and its managers."""

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.negotiation import check_object
from controller_manager.devcluster.apiserver.request_info import parse_deletion
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.controlplane import APIServer
from controller_manager.devcluster.kubelet.nodes import Nodes
from controller_manager.options.gates import FeatureGates
from tests.clusters import EPOCH, TOKEN

from .faults import Faults
from .managers import Manager, SettableClock
from .objects import Edit, controller_of, is_deleted, path_of, uid_of
from .settings import config_of
from .table.identity import NODE
from .transport import Observer

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")

_ADMIN: Final = User("admin", groups=("system:masters",))
_VERSION_INTERVAL: Final = 5.0
_POLL: Final = 0.5
_PATIENCE: Final = 600.0
"""Seconds that a user waits for a deletion."""

_ANNOYANCE: Final = 20.0
"""Seconds after which nothing new goes wrong until the deletion is done."""


class Stuck(Exception):
    """An object that was deleted does not go away."""


@dataclass
class World:
    """Everything that one seed creates."""

    seed: int
    faults: Faults
    managers_wanted: int = 1
    clock: SettableClock = field(init=False)
    server: APIServer = field(init=False)
    managers: list[Manager] = field(default_factory=list)
    defects: list[BaseException] = field(default_factory=list)
    versions: list[tuple[float, int]] = field(default_factory=list)
    """The resource version of the server at certain times."""

    orphaned: set[tuple[str, str]] = field(default_factory=set)
    """Pairs: the uid of an object that a user orphaned, and of its deleted owner."""

    dismissed: set[str] = field(default_factory=set)
    """The uids of all objects that a user or a stranger has deleted."""

    made: dict[str, str] = field(default_factory=dict)
    """The plurals of all objects that controllers have created, by uid."""

    by_users: dict[str, str] = field(default_factory=dict)
    """The plurals of all objects that users have created, by uid."""

    before_change: Callable[[], None] = lambda: None
    """Is called before each change of a user: no manager may have written since."""

    _kinds: dict[str, Kind] = field(default_factory=dict)
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = SettableClock(EPOCH)
        self.server = APIServer(
            clock=self.clock,
            rng=random.Random(f"server {self.seed}"),
            users={TOKEN: _ADMIN, "node": NODE},
            features=FeatureGates({"GenericWorkload": True}),
        )
        self.config = config_of(self.managers_wanted)
        for name in NAMESPACES:
            if self.find("namespaces", "", name) is None:
                self.create("namespaces", "", {"metadata": {"name": name}})

    # What is stored

    def kind(self, plural: str) -> Kind:
        """Return the kind with that plural name; raises KeyError if there is none."""
        if plural not in self._kinds:
            self._kinds |= {each.plural: each for each in reversed(self.kinds())}
        return self._kinds[plural]

    def kinds(self) -> list[Kind]:
        """Return all kinds whose objects are stored."""
        return [each for each in self.server.catalogue.all() if each.is_stored]

    def stored(self, plural: str, namespace: str = "") -> list[JSON]:
        """Return all objects of a resource, or of one namespace, by name."""
        collection = self.server.storage.collection(self.kind(plural).resource)
        found = [
            each.obj
            for each in collection
            if namespace in ("", each.obj["metadata"].get("namespace"))
        ]
        return sorted(found, key=path_of)

    def find(self, plural: str, namespace: str, name: str) -> JSON | None:
        """Return an object as it is stored, `None` if there is none."""
        try:
            kind = self.kind(plural)
        except KeyError:
            return None
        found = self.server.storage.collection(kind.resource).get((namespace, name))
        return found.obj if found is not None else None

    def everything(self, *without: str) -> list[JSON]:
        """Return the objects of all resources except those in `without`, by plural."""
        return [
            each.obj
            for resource in dict.fromkeys(
                kind.resource for kind in self.kinds() if kind.plural not in without
            )
            for each in self.server.storage.collection(resource)
        ]

    def used(self) -> list[str]:
        """Return the plurals of what somebody has created, and of nodes."""
        return sorted({*self.made.values(), *self.by_users.values(), "nodes", "leases"})

    def pods_of(self, owner: str) -> list[JSON]:
        """Return the pods whose controller has the uid `owner`."""
        return [each for each in self.stored("pods") if controller_of(each) == owner]

    # What users do

    def create(
        self,
        plural: str,
        namespace: str,
        obj: JSON,
        user: User | None = None,
        age: timedelta = timedelta(),
    ) -> JSON:
        """Create an object, in its canonical form, as if it were of that age."""
        kind = self.kind(plural)
        body: JSON = json.loads(json.dumps(obj))
        if kind.type_name:
            body, _ = check_object(body, kind, kind.version)
        self.clock.set_error(-age.total_seconds())
        try:
            stored = self.server.objects.create(
                kind, namespace if kind.namespaced else "", body, user=user or _ADMIN
            )
        finally:
            self.clock.set_error(0.0)
        self.by_users[uid_of(stored.obj)] = plural
        return stored.obj

    def change(self, plural: str, obj: JSON, edit: Edit, subresource: str = "") -> None:
        """Store an object after `edit` has changed a copy of it."""
        self.before_change()
        changed: JSON = json.loads(json.dumps(obj))
        edit(changed)
        metadata, kind = obj["metadata"], self.kind(plural)
        if kind.type_name:
            changed, _ = check_object(changed, kind, kind.version)
        self.server.objects.update(
            kind, metadata.get("namespace", ""), metadata["name"], changed, subresource
        )

    def delete(
        self, plural: str, obj: JSON, grace: int | None = None, policy: str = ""
    ) -> None:
        """Delete an object; note the objects that the policy Orphan leaves behind."""
        body: JSON = {} if grace is None else {"gracePeriodSeconds": grace}
        if policy:
            body["propagationPolicy"] = policy
        metadata = obj["metadata"]
        self.dismissed.add(uid_of(obj))
        if policy == "Orphan":
            self._note_orphans(uid_of(obj))
        self.server.objects.delete(
            self.kind(plural),
            metadata.get("namespace", ""),
            metadata["name"],
            parse_deletion(body, {}),
        )

    def _note_orphans(self, owner: str) -> None:
        self.orphaned.update(
            (uid_of(each), owner)
            for each in self.everything("events")
            for reference in each["metadata"].get("ownerReferences", ())
            if reference["uid"] == owner
        )

    async def until_gone(self, plural: str, namespace: str, name: str) -> None:
        """Wait until a deleted object is gone; raises Stuck if it stays.

        Nothing new goes wrong for somebody who has waited long: a namespace goes only
        if a hundred requests in a row are answered.
        """
        started = asyncio.get_running_loop().time()
        try:
            while self.find(plural, namespace, name) is not None:
                waited = asyncio.get_running_loop().time() - started
                if waited > _PATIENCE:
                    raise Stuck(self._left(plural, namespace, name))
                if waited > _ANNOYANCE:
                    self.faults.annoyed.add((plural, namespace, name))
                await asyncio.sleep(_POLL)
        finally:
            self.faults.annoyed.discard((plural, namespace, name))

    def _left(self, plural: str, namespace: str, name: str) -> str:
        """Return what is left of an object, or in a namespace."""
        left = [
            f"{each['kind']} {path_of(each)} {each['metadata'].get('finalizers', '')}"
            for each in self.everything("events")
            if each["metadata"].get("namespace") == name
            or path_of(each) == f"{namespace}/{name}"
        ]
        return f"{plural} {namespace}/{name} was deleted and is never gone: {left}"

    def is_there(self, plural: str, namespace: str, name: str) -> bool:
        """Tell whether an object exists and is not about to go."""
        found = self.find(plural, namespace, name)
        return found is not None and not is_deleted(found)

    # Running

    def start(self, observe: Callable[[Manager], Observer]) -> None:
        """Start nodes and managers."""
        nodes = Nodes(
            self.server, self.clock, start_delay=1.0, grace_scale=0.1, details=False
        )
        nodes.register()
        self._start_task(nodes.run())
        self._start_task(self._record_versions())
        for number in range(self.managers_wanted):
            manager = Manager(self, number, observe)
            self.managers.append(manager)
            self._start_task(manager.run())

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def stop(self) -> None:
        """End everything; an error of a task is a defect."""
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                self.defects.append(outcome)

    async def _record_versions(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_VERSION_INTERVAL)
            self.versions.append((loop.time(), self.server.storage.version))
