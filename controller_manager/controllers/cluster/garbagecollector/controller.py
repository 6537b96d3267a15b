"""What goes, and when (garbagecollector.go)."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller_manager.api.meta import OwnerReference, PartialMetadata, PartialObject
from controller_manager.api.resource import Resource
from controller_manager.client.client import PropagationPolicy
from controller_manager.client.discovery import discover
from controller_manager.client.errors import (
    APIError,
    InvalidName,
    ProtocolError,
    TransportError,
)
from controller_manager.client.events import WARNING
from controller_manager.controllers.cluster.garbagecollector.actions import (
    Objects,
    UnknownKind,
)
from controller_manager.controllers.cluster.garbagecollector.dump import Drawing, draw
from controller_manager.controllers.cluster.garbagecollector.graph import (
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    Graph,
    GroupKind,
    Identity,
    Node,
    has_finalizer,
    identity_of,
    waits_for,
)
from controller_manager.controllers.cluster.garbagecollector.metrics import (
    GarbageCollectorMetrics,
)
from controller_manager.controllers.cluster.garbagecollector.monitors import Monitors
from controller_manager.controllers.cluster.garbagecollector.options import (
    GarbageCollectorOptions,
)
from controller_manager.controllers.cluster.garbagecollector.recent import Recent
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import DONE, Done, Outcome, Requeue

_REDISCOVER: Final = 30.0
"""Seconds between looks at what is served."""

_ESTABLISHING: Final = 1.0
"""Seconds that a definition takes to be served."""

_INITIAL_SYNC: Final = 30.0
"""Seconds that all resources are waited for; one that cannot be listed must not
keep the others from being collected for ever."""

_LOOK_AGAIN_BASE: Final = 0.05
_LOOK_AGAIN_CAP: Final = 30.0
_UNKNOWN_BASE: Final = 30.0
_UNKNOWN_CAP: Final = 1000.0

_DISCOVERY_KEY: Final = "resources"


def init_garbage_collector_controller(context: ControllerContext) -> Controller | None:
    """Wire the controller (newGarbageCollectorController); `None` if disabled."""
    config = context.config.of(GarbageCollectorOptions)
    if not config.enabled:
        return None
    collector = GarbageCollector(context)
    count = config.concurrent_syncs
    return WorkerGroup(
        context.workers(
            collector.deletions,
            collector.attempt_to_delete,
            count,
            ready=collector.graph_is_whole,
        ),
        context.workers(
            collector.orphanings,
            collector.attempt_to_orphan,
            count,
            ready=collector.graph_is_whole,
        ),
        context.workers(
            collector.discoveries, collector.rediscover, 1, collector.enqueue_all
        ),
        debug={"graph": collector.drawn},
    )


@dataclass(slots=True)
class _Owners:
    """The owners of an object, parted by what has become of them."""

    solid: list[OwnerReference] = field(default_factory=list)
    dangling: list[OwnerReference] = field(default_factory=list)
    waiting: list[OwnerReference] = field(default_factory=list)


class _Misreferred(Exception):  # noqa: N818 - a decision, not a malfunction
    """A cluster-scoped object names an owner of a namespace; it stays."""


class GarbageCollector:
    """Deletes objects that have lost all owners, and unties those that keep some."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; nothing is watched before `enqueue_all`."""
        self.deletions = context.queue("garbage_collector_attempt_to_delete")
        self.orphanings = context.queue("garbage_collector_attempt_to_orphan")
        self.discoveries = context.queue("garbage_collector_discovery")
        self._client = context.client
        self._clock = context.clock
        self._logger = context.logger
        self._recorder = context.recorder
        self._metrics = context.metrics.of(GarbageCollectorMetrics)
        self.graph = Graph(
            self.deletions.add,
            self.orphanings.add,
            self._misplaced,
            self._forget,
            self._serves,
        )
        self._monitors = Monitors(
            context.informers, self.graph, context.logger, self._served_changes
        )
        self._objects = Objects(context.client, lambda: self._monitors.served)
        self._absent: Recent[Identity] = Recent()
        """Whom the API server does not have, so that it is asked once. Only its own
        answers count: upstream adds what a watch saw go, and a watch can be wrong."""
        self._orphaned: Recent[str] = Recent()
        """uids of owners that were let go before all their dependents were found."""
        self._unknown: dict[str, None] = {}
        """uids of what is, or refers to, something of a kind that is not served."""
        self._unlisted_since: dict[str, dict[GroupKind, float]] = {}
        self._discovered = asyncio.Event()
        self._first_sync = asyncio.Lock()
        self._is_whole = False

    def enqueue_all(self) -> Iterator[None]:
        """Begin to watch."""
        self.discoveries.add(_DISCOVERY_KEY)
        yield

    def _serves(self, kind: GroupKind) -> bool:
        return self._monitors.serves(kind)

    def _forget(self, uid: str) -> None:
        """Drop what is remembered of an object that nobody knows any more."""
        self._unknown.pop(uid, None)
        self._unlisted_since.pop(uid, None)

    def _served_changes(self) -> None:
        """Look at what is served soon; upstream takes up to 30 s to notice."""
        self.discoveries.add_after(_DISCOVERY_KEY, _ESTABLISHING)

    def drawn(self, query: Mapping[str, Sequence[str]]) -> Drawing:
        """Return a picture of the graph, or of what hangs together with some uids."""
        return draw(self.graph, query.get("uid", ()), query.get("output", ()))

    async def rediscover(self, key: str) -> Outcome:  # noqa: ARG002 - there is one
        """Adjust the watches to what is served."""
        discovery = await discover(self._client)
        if not discovery.preferred("delete", "list", "watch"):
            self._metrics.sync_failed()
            self._logger.warning("No resources are discovered, keeping those known")
            return Done(_REDISCOVER)
        if problem := discovery.problem():
            self._metrics.sync_failed()
            self._logger.warning("Not all resources are known", err=problem)
        # A store that was restored has objects again that were gone.
        self._absent.clear()
        if self._monitors.adjust(discovery, self._clock.monotonic()):
            # Of kinds that were not served, and may be now.
            for uid in self._unknown:
                self.deletions.add(uid)
            self._unknown.clear()
        self._discovered.set()
        return Done(_REDISCOVER)

    def _misplaced(self, node: Node, reference: OwnerReference) -> None:
        """Tell the user of an owner that is of another namespace."""
        identity = node.identity
        resource = Resource(
            identity.group, identity.version, "", identity.kind, PartialObject
        )
        about = PartialObject(
            metadata=PartialMetadata(
                name=identity.name, namespace=identity.namespace, uid=identity.uid
            )
        )
        meant = identity_of(reference, identity.namespace)
        self._recorder.event(
            resource,
            about,
            WARNING,
            "OwnerRefInvalidNamespace",
            f'ownerRef {meant} does not exist in namespace "{identity.namespace}"',
        )

    async def graph_is_whole(self) -> None:
        """Wait until all that is served has been seen once, or long enough.

        One resource that cannot be listed must not keep the others from being
        collected: after half a minute what is known has to do, as upstream has it.
        """
        await self._discovered.wait()
        async with self._first_sync:
            if not self._is_whole:
                await self._sync_for_the_first_time()
                self._is_whole = True

    async def _sync_for_the_first_time(self) -> None:
        try:
            async with asyncio.timeout(_INITIAL_SYNC):
                await self._monitors.wait_for_sync()
        except TimeoutError:
            self._metrics.sync_failed()
            self._logger.warning(
                "Not all resources could be read, collecting what is known",
                unread=", ".join(self._monitors.unsynced()),
            )

    # Deleting.

    async def attempt_to_delete(self, uid: str) -> Outcome:
        """Delete an object if it has lost its owners (attemptToDeleteItem)."""
        node = self.graph.get(uid)
        if node is None:
            self._forget(uid)  # it may have gone in the middle of a sync
            return DONE
        if node.is_being_deleted and not node.is_deleting_dependents:
            return DONE  # what depends on it is looked at once it is gone
        try:
            await self._look_at(node)
        except (UnknownKind, InvalidName) as error:
            # It may become known with what is discovered next. Many clusters
            # have references to kinds of long ago, so nothing is hurried. And
            # what cannot be asked for cannot be said to be gone.
            if self.graph.get(uid) is node:
                self._unknown[uid] = None
            return self._look_again(node, _UNKNOWN_BASE, _UNKNOWN_CAP, str(error))
        except _Misreferred as error:
            self._logger.warning("Not collected", err=str(error))
            return DONE
        if node.is_virtual and self.graph.get(uid) is node:
            # What exists and has not been seen may go unseen (kubernetes#56121).
            why = "it has not been seen yet"
            return self._look_again(node, _LOOK_AGAIN_BASE, _LOOK_AGAIN_CAP, why)
        return DONE

    def _look_again(self, node: Node, base: float, cap: float, why: str) -> Requeue:
        """Ask again, ever more seldom."""
        delay = base * 2.0 ** min(node.looks, 16)
        node.looks += 1
        return Requeue(min(delay, cap), why)

    async def _look_at(self, node: Node) -> None:
        identity = self._placed(node.identity)
        if node.is_virtual:
            # That it is of no namespace, whoever speaks of it need not know.
            node.identity = identity
        if not identity.namespace and self._objects.is_namespaced(identity):
            msg = f"{identity} is spoken of by an object of no namespace"
            raise _Misreferred(msg)
        latest = await self._objects.get(identity)
        if latest is None:
            self.graph.absent(identity)
        elif node.is_deleting_dependents:
            await self._delete_dependents(node)
        elif references := latest.metadata.owner_references:
            owners = await self._owners(identity, references)
            await self._dispose(node, latest, owners)

    def _placed(self, identity: Identity) -> Identity:
        """Return where an object is, which a reference to it need not know."""
        if self._objects.is_namespaced(identity):
            return identity
        return identity._replace(namespace="")

    async def _delete_dependents(self, node: Node) -> None:
        """Go on with a foreground deletion (processDeletingDependentsItem)."""
        blocking = node.blocking_dependents()
        if not blocking:
            identity = self._placed(node.identity)
            await self._objects.drop_finalizer(identity, FOREGROUND_FINALIZER)
        for dependent in blocking:
            if not dependent.is_deleting_dependents:
                self.deletions.add(dependent.uid)

    async def _owners(
        self, identity: Identity, references: Sequence[OwnerReference]
    ) -> _Owners:
        """Part owners by what the API server says of them (classifyReferences)."""
        owners = _Owners()
        for reference in references:
            owner = await self._owner(identity, reference)
            if owner is None:
                owners.dangling.append(reference)
            elif waits_for(owner, FOREGROUND_FINALIZER):
                owners.waiting.append(reference)
            else:
                owners.solid.append(reference)
        return owners

    async def _owner(
        self, identity: Identity, reference: OwnerReference
    ) -> PartialObject | None:
        try:
            return await self._stored_owner(identity, reference)
        except UnknownKind:
            # With its definition its objects have gone, each seen by a watch.
            if not self.graph.was_seen_to_go(reference.uid):
                raise
            return None

    async def _stored_owner(
        self, identity: Identity, reference: OwnerReference
    ) -> PartialObject | None:
        meant = self._placed(identity_of(reference, identity.namespace))
        if not meant.namespace and self._objects.is_namespaced(meant):
            msg = f"{identity} is of no namespace, but refers to an owner of one"
            raise _Misreferred(msg)
        if meant in self._absent:
            return None
        owner = await self._objects.get(meant)
        if owner is None:
            self._absent.add(meant)
        return owner

    async def _dispose(
        self, node: Node, latest: PartialObject, owners: _Owners
    ) -> None:
        """Do what its owners' fate demands of an object that was just read."""
        identity = self._placed(node.identity)
        lost = [each.uid for each in (*owners.dangling, *owners.waiting)]
        if owners.solid:
            if lost:
                self._logger.v(2).info("Taking owners off", object=str(identity))
                await self._objects.drop_owners(identity, latest, lost)
            return
        if spared := [each for each in lost if each in self._orphaned]:
            self._logger.v(2).info(
                "Taking an orphan's owners off", object=str(identity)
            )
            await self._objects.drop_owners(identity, latest, spared)
            self.deletions.add(node.uid)  # those that are left count on
            return
        if owners.waiting and node.dependents:
            if any(each.is_deleting_dependents for each in node.dependents):
                # A circle, perhaps: each would wait for the other.
                await self._objects.unblock(identity, latest)
                latest = await self._objects.get(identity) or latest
            policy = PropagationPolicy.FOREGROUND
        else:
            policy = _policy_of(latest)
        self._logger.v(2).info("Deleting", object=str(identity), policy=policy)
        await self._objects.delete(identity, latest, policy)

    # Orphaning.

    async def attempt_to_orphan(self, uid: str) -> Outcome:
        """Untie an owner's dependents, then let it go (processAttemptToOrphan)."""
        node = self.graph.get(uid)
        if node is None:
            self._forget(uid)  # it may have gone in the middle of a sync
            return DONE
        identity = node.identity
        dependents = {each.identity for each in node.dependents}
        # Of what was not read yet anything may depend on it.
        kinds = (
            *self.graph.kinds_owned_by(identity),
            *self._monitors.unsynced_kinds(),
        )
        for kind in dict.fromkeys(kinds):
            dependents.update(await self._unseen(kind, identity))
        results = await asyncio.gather(
            *(
                self._objects.drop_owners(each, None, [uid])
                for each in sorted(dependents)
            ),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        await self._objects.drop_finalizer(identity, ORPHAN_FINALIZER)
        self._unlisted_since.pop(uid, None)
        return DONE

    async def _unseen(self, kind: GroupKind, owner: Identity) -> list[Identity]:
        """Return dependents that the graph may not know of: a watch may lag.

        A kind that cannot be listed holds nobody up for more than half a minute.
        What is not untied by then is untied when it is seen.
        """
        try:
            found = await self._objects.dependents(kind, owner)
        except (APIError, TransportError, ProtocolError) as error:
            now = self._clock.monotonic()
            failing = self._unlisted_since.setdefault(owner.uid, {})
            if now - failing.setdefault(kind, now) < _INITIAL_SYNC:
                raise
            self._logger.warning(
                "Dependents not listed, untying those known",
                owner=str(owner),
                kind="/".join(kind),
                err=str(error),
            )
            self._orphaned.add(owner.uid)
            return []
        self._unlisted_since.get(owner.uid, {}).pop(kind, None)
        return found


def _policy_of(obj: PartialObject) -> PropagationPolicy:
    """Return how to delete an object: as its finalizers say it began."""
    if has_finalizer(obj, ORPHAN_FINALIZER):
        return PropagationPolicy.ORPHAN
    if has_finalizer(obj, FOREGROUND_FINALIZER):
        return PropagationPolicy.FOREGROUND
    return PropagationPolicy.BACKGROUND
