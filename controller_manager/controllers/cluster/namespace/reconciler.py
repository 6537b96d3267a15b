"""Handlers and sync of the namespace controller (namespace_controller.go)."""

from typing import Final

import msgspec

from controller_manager.api.core.v1 import NAMESPACES, Namespace
from controller_manager.api.meta import is_deleting
from controller_manager.api.times import format_time
from controller_manager.client.errors import Conflict, NotFound, gravest
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Failed,
    Outcome,
    Requeue,
    SyncError,
)
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

from .conditions import Findings, updated_conditions
from .deletion import FAILURES, ContentDeleter
from .options import NamespaceOptions

FINALIZER: Final = "kubernetes"
TERMINATING: Final = "Terminating"

_SETTLE: Final = 5.0
"""Seconds from a namespace's deletion until it is emptied.

By then all API servers know of the deletion, and none of them creates an object in the
namespace.
"""

_MAX_DELAY: Final = 60.0
"""The longest delay between retries, in seconds: users wait for the deletion."""


class NamespaceReconciler(Reconciler[Namespace]):
    """Empties namespaces that are being deleted, and removes their finalizer."""

    watches = (For(NAMESPACES, when=is_deleting, delay=_SETTLE),)
    queue_name = "namespace"
    # Each sync reads the namespace from the API server.
    reads_own_writes = False

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        options = context.config.of(NamespaceOptions)
        self.workers = options.concurrent_syncs
        self._deleter = ContentDeleter(context.client, context.clock, context.logger)
        self._sync_period = options.sync_period

    def backoff(self) -> Backoff:
        """Return a backoff with delays of a minute at most."""
        return ExponentialBackoff(max_delay=_MAX_DELAY)

    async def reconcile(self, cached: Namespace) -> Outcome:
        """Continue the deletion of the namespace."""
        if not is_deleting(cached):
            return DONE
        name = cached.metadata.name
        try:
            namespace = await self.client.get(NAMESPACES, "", name)
        except NotFound:
            return DONE
        if not is_deleting(namespace) or not namespace.spec.finalizers:
            return DONE
        namespace = await self._announce(namespace)
        findings = await self._deleter.delete_all(
            name, namespace.metadata.deletion_timestamp
        )
        namespace = await self._report(namespace, findings)
        after = self._requeue_after(findings.estimate) if findings.remaining else None
        if problems := findings.problems:
            error = SyncError("; ".join(problems))
            if len(problems) == len(findings.failures):
                error.__cause__ = gravest(findings.failures)
            return Failed(error, after)
        if after is not None:
            return Requeue(after, "content remains")
        if namespace.status.phase != TERMINATING:
            # Users may still create objects in the namespace, which would outlive it.
            msg = f"the phase of the namespace {name} could not be written"
            raise SyncError(msg)
        await self._finalize(namespace)
        # A finalizer of another controller may keep the namespace, and new objects
        # may be created in it: sync it again.
        return Done(self._sync_period) if self._sync_period else DONE

    def _requeue_after(self, estimate: int) -> float:
        """Return the seconds until a namespace with remaining content is synced again.

        It is half the estimate, as in upstream: most pods end before their grace period
        does. Upstream also syncs each namespace once in a sync period.
        """
        half = estimate // 2 + 1.0
        return min(half, self._sync_period) if self._sync_period else half

    async def _announce(self, namespace: Namespace) -> Namespace:
        """Set the phase Terminating, unless it is set.

        Raises Conflict or NotFound if the namespace has changed: a user may have
        created it again, and then its content must stay.
        """
        if namespace.status.phase == TERMINATING:
            return namespace
        status = msgspec.structs.replace(namespace.status, phase=TERMINATING)
        try:
            return await self._write_status(namespace, status)
        except (Conflict, NotFound):
            raise
        except FAILURES as error:
            return self._unreported(namespace, "phase", error)

    async def _report(self, namespace: Namespace, findings: Findings) -> Namespace:
        """Write the conditions to the status, if they have changed."""
        present = namespace.status.conditions or ()
        now = format_time(self.clock.now())
        conditions = updated_conditions(present, findings, now)
        if conditions == present:
            return namespace
        status = msgspec.structs.replace(
            namespace.status, phase=TERMINATING, conditions=conditions
        )
        try:
            return await self._write_status(namespace, status)
        except FAILURES as error:
            return self._unreported(namespace, "conditions", error)

    def _unreported(
        self, namespace: Namespace, lacking: str, error: Exception
    ) -> Namespace:
        """Log that the status cannot be written; the deletion goes on.

        A webhook may refuse the write if its server was a pod of this namespace.
        """
        self.logger.error(
            "Cannot write the status of the namespace",
            namespace=namespace.metadata.name,
            lacking=lacking,
            err=str(error),
        )
        return namespace

    async def _write_status(self, namespace: Namespace, status: object) -> Namespace:
        changed = msgspec.structs.replace(namespace, status=status)
        return await self.client.update(NAMESPACES, changed, "status")

    async def _finalize(self, namespace: Namespace) -> None:
        """Remove this controller's finalizer from the namespace."""
        while True:
            left = tuple(
                each for each in namespace.spec.finalizers or () if each != FINALIZER
            )
            spec = msgspec.structs.replace(namespace.spec, finalizers=left)
            changed = msgspec.structs.replace(namespace, spec=spec)
            try:
                await self.client.update_for_metadata(NAMESPACES, changed, "finalize")
            except NotFound:
                return
            except Conflict:
                fresh = await self.client.get(NAMESPACES, "", namespace.metadata.name)
                if fresh.metadata.uid != namespace.metadata.uid:
                    return
                namespace = fresh
            else:
                return
