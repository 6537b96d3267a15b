"""Handlers and sync of the namespace controller (namespace_controller.go)."""

from collections.abc import Iterator
from typing import Final

import msgspec

from controller_manager.api.core.v1 import NAMESPACES, Namespace
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.times import format_time
from controller_manager.client.errors import Conflict, NotFound
from controller_manager.controllers.cluster.namespace.conditions import (
    Findings,
    updated_conditions,
)
from controller_manager.controllers.cluster.namespace.deletion import ContentDeleter
from controller_manager.informers.informer import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import DONE, Done, Outcome, Requeue, SyncError
from controller_manager.workqueue.ratelimiters import ExponentialBackoff

FINALIZER: Final = "kubernetes"
TERMINATING: Final = "Terminating"

_SETTLE: Final = 5.0
"""Seconds from a namespace's deletion until it is emptied.

All API servers must know of it by then, so that nothing is created meanwhile.
"""

_MAX_DELAY: Final = 60.0
"""Seconds between retries at most: a namespace that is going is waited for."""


def init_namespace_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informer (newNamespaceController)."""
    controller = NamespaceController(context)
    count = context.config.namespace.concurrent_syncs
    return context.workers(
        controller.queue, controller.sync, count, on_start=controller.begin
    )


class NamespaceController:
    """Empties namespaces that are being deleted and takes their finalizer off."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context and watch namespaces."""
        backoff = ExponentialBackoff(max_delay=_MAX_DELAY)
        self.queue = context.queue("namespace", backoff)
        self._client = context.client
        self._clock = context.clock
        self._deleter = ContentDeleter(context.client, context.clock, context.logger)
        self._sync_period = context.config.namespace.sync_period
        self._namespaces = context.informers.informer(NAMESPACES)
        self._namespaces.add_handler(
            Handler(
                on_add=self._enqueue,
                on_update=lambda _, new: self._enqueue(new),
            )
        )

    def begin(self) -> Iterator[None]:
        """Begin to act: look at every namespace once."""
        for namespace in self._namespaces.store:
            self._enqueue(namespace)
            yield

    def _enqueue(self, namespace: Namespace) -> None:
        if is_deleting(namespace):
            self.queue.add_after(key_of(namespace), _SETTLE)

    async def sync(self, key: str) -> Outcome:
        """Go on with the deletion of the namespace of that name."""
        if (cached := self._namespaces.store.get(key)) is None:
            return DONE
        if not is_deleting(cached):
            return DONE
        try:
            namespace = await self._client.get(NAMESPACES, "", key)
        except NotFound:
            return DONE
        if not is_deleting(namespace) or not namespace.spec.finalizers:
            return DONE
        namespace = await self._announce(namespace)
        findings = await self._deleter.delete_all(
            key, namespace.metadata.deletion_timestamp
        )
        namespace = await self._report(namespace, findings)
        if problems := findings.problems:
            raise SyncError("; ".join(problems))
        if findings.remaining:
            # Half the estimate, as upstream: most pods end long before they must.
            return Requeue(findings.estimate // 2 + 1.0, "content remains")
        await self._finalize(namespace)
        # Should it be kept by a finalizer of somebody else's, and something be
        # created in it: look again.
        return Done(self._sync_period) if self._sync_period else DONE

    async def _announce(self, namespace: Namespace) -> Namespace:
        """Say that the namespace is terminating, if nobody has."""
        if namespace.status.phase == TERMINATING:
            return namespace
        status = msgspec.structs.replace(namespace.status, phase=TERMINATING)
        return await self._write_status(namespace, status)

    async def _report(self, namespace: Namespace, findings: Findings) -> Namespace:
        """Say in the status what is going on, if that is new."""
        present = namespace.status.conditions or ()
        now = format_time(self._clock.now())
        conditions = updated_conditions(present, findings, now)
        if conditions == present:
            return namespace
        status = msgspec.structs.replace(namespace.status, conditions=conditions)
        return await self._write_status(namespace, status)

    async def _write_status(self, namespace: Namespace, status: object) -> Namespace:
        changed = msgspec.structs.replace(namespace, status=status)
        return await self._client.update(NAMESPACES, changed, "status")

    async def _finalize(self, namespace: Namespace) -> None:
        """Take our finalizer off; with the last one the namespace is gone."""
        while True:
            left = tuple(
                each for each in namespace.spec.finalizers or () if each != FINALIZER
            )
            spec = msgspec.structs.replace(namespace.spec, finalizers=left)
            changed = msgspec.structs.replace(namespace, spec=spec)
            try:
                await self._client.update(NAMESPACES, changed, "finalize")
            except NotFound:
                return
            except Conflict:
                fresh = await self._client.get(NAMESPACES, "", namespace.metadata.name)
                if fresh.metadata.uid != namespace.metadata.uid:
                    return
                namespace = fresh
            else:
                return
