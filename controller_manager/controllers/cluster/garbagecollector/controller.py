"""The garbage collector: decides which objects are deleted (garbagecollector.go)."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from controller_manager.api import meta
from controller_manager.client.discovery.resources import discover
from controller_manager.client.events.recorder import WARNING
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import PropagationPolicy
from controller_manager.control import all_resources
from controller_manager.control.recent_set import RecentSet
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import DONE, Done, Outcome, Requeue, failure_of

from . import GarbageCollectorOptions, graph
from .dump import Drawing, draw
from .monitors import GraphChanges, Monitors
from .objects import Objects, UnknownKind

_UNSEEN_BASE: Final = 0.05
_UNSEEN_CAP: Final = 30.0
_UNKNOWN_BASE: Final = 30.0
_UNKNOWN_CAP: Final = 1000.0

_KEYS_PER_TURN: Final = 100
"""The number of keys that are added before other tasks may run."""

_DISCOVERY_KEY: Final = "resources"

_ANY: Final = "*"
"""Stands for all kinds of a group that could not be discovered."""


def init_garbage_collector_controller(context: ControllerContext) -> Controller:
    """Wire the controller (newGarbageCollectorController)."""
    of = GarbageCollector(context)
    count = context.config.of(GarbageCollectorOptions).concurrent_syncs
    ready = of.wait_for_graph
    return WorkerGroup(
        context.workers(of.deletions, of.attempt_to_delete, count, ready=ready),
        context.workers(of.orphanings, of.attempt_to_orphan, count, ready=ready),
        context.workers(of.discoveries, of.rediscover, 1, of.enqueue_all),
        debug={"graph": of.draw_graph},
    )


def _incomplete_syncs(registry: CollectorRegistry) -> Counter:
    return Counter(
        "garbagecollector_controller_resources_sync_error_total",
        "Number of garbage collector resources sync errors",
        registry=registry,
    )


class _InvalidReference(Exception):
    """A cluster-scoped object names a namespaced owner; the object is not deleted."""


class GarbageCollector:
    """Deletes objects whose owners are all gone; removes references to gone owners."""

    def __init__(self, context: ControllerContext) -> None:
        self.deletions = context.queue("garbage_collector_attempt_to_delete")
        self.orphanings = context.queue("garbage_collector_attempt_to_orphan")
        self.discoveries = context.queue("garbage_collector_discovery")
        self._client = context.client
        self._clock = context.clock
        self._logger = context.logger
        self._recorder = context.recorder
        self._incomplete_syncs = context.metrics.of(_incomplete_syncs)
        self.graph = graph.Graph(
            self.deletions.add,
            self.orphanings.add,
            self._report_invalid_namespace,
            self._forget,
            lambda kind: kind in self._monitors.served_kinds,
        )
        self._turns = context.turns
        self._monitors = Monitors(
            context.informers,
            self.graph,
            context.logger,
            # Upstream takes up to 30 s to notice a change of the served resources.
            lambda: self.discoveries.add_after(
                _DISCOVERY_KEY, all_resources.ESTABLISHING
            ),
            context.turns,
            GraphChanges(context.metrics.queues, context.clock),
        )
        self._objects = Objects(context.client, self._monitors)
        self._absent: RecentSet[graph.Identity] = RecentSet()
        """Owners that the API server does not have, so that each is read once. Only
        quorum reads add owners: upstream also adds owners whose deletion a watch has
        shown, but a watch can be wrong."""
        self._orphaned: RecentSet[str] = RecentSet()
        """uids of owners that were released; a watch may show a dependent later."""
        self._unknown: dict[str, None] = {}
        """uids of objects that are of, or refer to, a kind that is not served."""
        self._list_failing_since: dict[str, dict[graph.GroupKind, float]] = {}
        self._discovered = asyncio.Event()
        self._first_sync = asyncio.Lock()
        self._is_synced = False

    def enqueue_all(self) -> Iterator[None]:
        """Start discovery, and with it the watches."""
        self.discoveries.add(_DISCOVERY_KEY)
        yield

    def _forget(self, uid: str) -> None:
        """Drop the state of an object that is not in the graph any more."""
        self._unknown.pop(uid, None)
        self._list_failing_since.pop(uid, None)

    def draw_graph(self, query: Mapping[str, Sequence[str]]) -> Drawing:
        """Return a drawing of the graph, or of the nodes connected with some uids."""
        return draw(self.graph, query.get("uid", ()), query.get("output", ()))

    async def rediscover(self, key: str) -> Outcome:  # noqa: ARG002 - there is one
        """Discover resources, and adjust the watches to them, every 30 seconds."""
        again = all_resources.REDISCOVER
        return await failure_of(self._rediscover(), again) or Done(again)

    async def _rediscover(self) -> None:
        discovery = await discover(self._client)
        if not discovery.preferred("delete", "list", "watch"):
            self._incomplete_syncs.inc()
            self._logger.warning("No resources are discovered, keeping the watches")
            return
        if problem := discovery.problem():
            self._incomplete_syncs.inc()
            self._logger.warning("Not all resources are known", err=problem)
        # After a restore of etcd, objects that were gone may exist again.
        self._absent.clear()
        if await self._monitors.adjust(discovery, self._clock.monotonic()):
            await self._check_unknown()
        self._discovered.set()

    async def _check_unknown(self) -> None:
        unknown, self._unknown = self._unknown, {}
        turn = 0
        for number, uid in enumerate(unknown):
            if number % _KEYS_PER_TURN == 0:
                turn = await self._turns.wait(turn)
            self.deletions.add(uid)

    def _report_invalid_namespace(
        self, node: graph.Node, reference: meta.OwnerReference
    ) -> None:
        identity = node.identity
        group, namespace = identity.group, identity.namespace
        resource = meta.Resource(
            group, identity.version, "", identity.kind, meta.PartialObject
        )
        metadata = meta.PartialMetadata(
            name=identity.name, namespace=namespace, uid=identity.uid
        )
        meant = graph.named_by(reference, namespace)
        self._recorder.event(
            resource,
            meta.PartialObject(metadata=metadata),
            WARNING,
            "OwnerRefInvalidNamespace",
            f'ownerRef {meant} does not exist in namespace "{namespace}"',
        )

    async def wait_for_graph(self) -> None:
        """Wait until all resources are synced, half a minute at most.

        One resource that cannot be listed must not stop the collection of the
        others. Upstream waits as long.
        """
        await self._discovered.wait()
        async with self._first_sync:
            if self._is_synced:
                return
            try:
                async with asyncio.timeout(all_resources.INITIAL_SYNC):
                    await self._monitors.wait_for_sync()
            except TimeoutError:
                self._incomplete_syncs.inc()
                unread = [
                    each.resource.group_resource for each in self._monitors.unsynced()
                ]
                self._logger.warning(
                    "Not all resources could be read, collecting the others",
                    unread=", ".join(unread),
                )
            self._is_synced = True

    # Deleting.

    async def attempt_to_delete(self, uid: str) -> Outcome:
        """Delete an object if it has lost its owners (attemptToDeleteWorker)."""
        node = self.graph.nodes.get(uid)
        if node is None:
            self._forget(uid)  # it may have been removed during its last sync
            return DONE
        if node.is_being_deleted and not node.is_deleting_dependents:
            return DONE  # its dependents are checked once it is gone
        try:
            await self._process(node)
        except (UnknownKind, errors.InvalidName) as error:
            # The next discovery may find the kind. Many clusters have references to
            # removed kinds, so retries are slow. An owner that cannot be read does
            # not count as gone.
            if self.graph.nodes.get(uid) is node:
                self._unknown[uid] = None
            return self._requeue(node, _UNKNOWN_BASE, _UNKNOWN_CAP, str(error))
        except _InvalidReference as error:
            self._logger.warning(
                "Object not garbage-collected: the owner reference is invalid",
                err=str(error),
            )
            return DONE
        if node.is_virtual and self.graph.nodes.get(uid) is node:
            # It exists, but no watch has shown it yet. A watch may never show its
            # deletion, so check it again (kubernetes#56121).
            why = "no watch has shown it yet"
            return self._requeue(node, _UNSEEN_BASE, _UNSEEN_CAP, why)
        return DONE

    def _requeue(self, node: graph.Node, base: float, cap: float, why: str) -> Requeue:
        delay = base * 2.0 ** min(node.attempts, 16)
        node.attempts += 1
        return Requeue(min(delay, cap), why)

    async def _process(self, node: graph.Node) -> None:
        """Delete an object, or drop owners, as its owners are (attemptToDeleteItem)."""
        located = self._located(node.identity, "is an owner of a cluster-scoped object")
        if node.is_virtual:
            # An owner reference does not tell whether the owner is cluster-scoped.
            node.identity = located
        latest = await self._objects.get(located)
        if latest is None:
            self.graph.absent(located)
        elif node.is_deleting_dependents:
            await self._delete_dependents(node, located)
        elif meta.is_deleting(latest):
            return  # once the graph shows the deletion, the dependents are checked
        elif latest.metadata.owner_references:
            await self._dispose(node, located, latest)

    def _located(
        self,
        identity: graph.Identity,
        problem: str,
        dependent: graph.Identity | None = None,
    ) -> graph.Identity:
        """Return the identity without its namespace if the kind is cluster-scoped.

        Raises _InvalidReference if the kind is namespaced and the namespace unknown.
        """
        if not self._objects.is_namespaced(identity):
            return identity._replace(namespace="")
        if not identity.namespace:
            msg = f"{dependent or identity} {problem}"
            raise _InvalidReference(msg)
        return identity

    async def _delete_dependents(
        self, node: graph.Node, identity: graph.Identity
    ) -> None:
        """Continue a foreground deletion (processDeletingDependentsItem)."""
        blocking = node.blocking_dependents()
        if not blocking:
            await self._objects.drop_finalizer(identity, graph.FOREGROUND_FINALIZER)
        for dependent in blocking:
            if not dependent.is_deleting_dependents:
                self.deletions.add(dependent.uid)

    async def _owner(
        self, identity: graph.Identity, reference: meta.OwnerReference
    ) -> meta.PartialObject | None:
        meant = graph.named_by(reference, identity.namespace)
        problem = "is cluster-scoped, but has a namespaced owner"
        try:
            meant = self._located(meant, problem, identity)
            if meant in self._absent:
                return None
            owner = await self._objects.get(meant)
        except UnknownKind:
            # When a custom resource definition is deleted, its objects are deleted
            # first, and a watch shows each deletion.
            if reference.uid not in self.graph.deleted_owners:
                raise
            return None
        if owner is None:
            self._absent.add(meant)
        return owner

    async def _dispose(
        self, node: graph.Node, identity: graph.Identity, latest: meta.PartialObject
    ) -> None:
        """Delete an object or remove owner references, by the state of its owners.

        An owner is solid if it exists, dangling if it is gone, and waiting if it is
        being deleted in the foreground (classifyReferences).
        """
        lost: list[str] = []
        has_solid = has_waiting = False
        for reference in latest.metadata.owner_references or ():
            owner = await self._owner(identity, reference)
            is_waiting = owner and graph.waits_for(owner, graph.FOREGROUND_FINALIZER)
            if owner is None or is_waiting:
                lost.append(reference.uid)
                has_waiting |= bool(is_waiting)
            else:
                has_solid = True
        if has_solid:
            if lost:
                self._logger.v(2).info("Removing owners", object=str(identity))
                await self._objects.drop_owners(identity, latest, lost)
            return
        if orphaning := [each for each in lost if each in self._orphaned]:
            self._logger.v(2).info("Removing owners of an orphan", object=str(identity))
            await self._objects.drop_owners(identity, latest, orphaning)
            self.deletions.add(node.uid)  # check the remaining owners
            return
        if has_waiting and node.dependents:
            if any(each.is_deleting_dependents for each in node.dependents):
                # There may be a cycle, in which each object waits for the other.
                await self._objects.unblock(identity, latest)
                latest = await self._objects.get(identity) or latest
            policy = PropagationPolicy.FOREGROUND
        else:
            policy = _policy_of(latest)
        self._logger.v(2).info("Deleting", object=str(identity), policy=policy)
        await self._objects.delete(identity, latest, policy)

    # Orphaning.

    async def attempt_to_orphan(self, uid: str) -> Outcome:
        """Orphan the dependents of an owner, then release it (processAttemptToOrphan).

        The owner is removed from its dependents, and then the finalizer from the owner.
        """
        node = self.graph.nodes.get(uid)
        if node is None:
            self._forget(uid)  # it may have been removed during its last sync
            return DONE
        identity = node.identity
        dependents = {each.identity for each in node.dependents}
        for kind in self._possible_kinds(identity):
            dependents.update(await self._list_dependents(kind, identity))
        await self._drop_owner(identity, dependents)
        # A watch may lag behind and show a dependent only after the owner is deleted.
        self._orphaned.add(uid)
        await self._objects.drop_finalizer(identity, graph.ORPHAN_FINALIZER)
        self._list_failing_since.pop(uid, None)
        return DONE

    def _possible_kinds(self, owner: graph.Identity) -> list[graph.GroupKind]:
        """Return the kinds of which the owner may have dependents without a node."""
        kinds = (
            *self.graph.kinds_owned_by(owner),
            # Any object of a resource that is not synced yet may be a dependent.
            *(
                (each.resource.group, each.resource.kind)
                for each in self._monitors.unsynced()
            ),
            # So may those of a group whose resources are not known yet.
            *((group, _ANY) for group in sorted(self._monitors.undiscovered)),
        )
        return list(dict.fromkeys(kinds))

    async def _drop_owner(
        self, owner: graph.Identity, dependents: set[graph.Identity]
    ) -> None:
        """Remove an owner from its dependents, from a hundred of them at a time.

        Raises the gravest error when all of them have been tried.
        """
        failures: list[BaseException] = []
        ordered = sorted(dependents)
        for first in range(0, len(ordered), _KEYS_PER_TURN):
            some = ordered[first : first + _KEYS_PER_TURN]
            results = await asyncio.gather(
                *(self._objects.drop_owners(each, None, [owner.uid]) for each in some),
                return_exceptions=True,
            )
            failures += (each for each in results if isinstance(each, BaseException))
        if error := errors.gravest(failures):
            raise error

    async def _list_dependents(
        self, kind: graph.GroupKind, owner: graph.Identity
    ) -> list[graph.Identity]:
        """Return the dependents of a kind, as the graph may not know all of them yet.

        A usual kind of dependents that cannot be listed delays the owner until it can
        be listed: if the finalizer went earlier, the next process would collect the
        dependents. Any other kind, which may be that of a broken aggregated API, delays
        the owner by half a minute at most. After that, this process removes the owner
        from each dependent when a watch shows it.
        """
        try:
            found = await self._objects.dependents(kind, owner)
        except (UnknownKind, errors.RequestError) as error:
            if kind in graph.USUAL_DEPENDENTS.get(owner.group_kind, ()):
                raise
            now = self._clock.monotonic()
            failing = self._list_failing_since.setdefault(owner.uid, {})
            if now - failing.setdefault(kind, now) < all_resources.INITIAL_SYNC:
                raise
            self._logger.warning(
                "Dependents not listed, orphaning the known ones",
                owner=str(owner),
                kind="/".join(kind),
                err=str(error),
            )
            self._orphaned.add(owner.uid)
            return []
        self._list_failing_since.get(owner.uid, {}).pop(kind, None)
        return found


def _policy_of(obj: meta.PartialObject) -> PropagationPolicy:
    if graph.has_finalizer(obj, graph.ORPHAN_FINALIZER):
        return PropagationPolicy.ORPHAN
    if graph.has_finalizer(obj, graph.FOREGROUND_FINALIZER):
        return PropagationPolicy.FOREGROUND
    return PropagationPolicy.BACKGROUND
