"""The namespace controller empties namespaces that end (namespace_controller.go).

The sync deletes the content of a namespace (namespaced_resources_deleter.go).
"""

from http import HTTPStatus
from typing import Final

import msgspec

from controller_manager.api.core.v1 import NAMESPACES, Namespace, PodStatus
from controller_manager.api.meta import (
    APIStruct,
    PartialObject,
    Projection,
    Resource,
    is_deleting,
)
from controller_manager.api.pods import TERMINAL_PHASES
from controller_manager.api.scalars import format_time, parse_time, seconds_after
from controller_manager.client.discovery.resources import ServedResource, discover
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.runtime import outcome
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

from . import NamespaceOptions
from .conditions import Findings, discovery_problem, updated_conditions

FINALIZER: Final = "kubernetes"
TERMINATING: Final = "Terminating"

_SETTLE: Final = 5.0
"""Seconds from a namespace's deletion until it is emptied.

By then all API servers know of the deletion, and none of them creates an object in the
namespace.
"""

_MAX_DELAY: Final = 60.0
"""The longest delay between retries, in seconds: users wait for the deletion."""

_FINALIZER_ESTIMATE: Final = 15
"""The estimated seconds until finalizers release objects."""

_DEFAULT_GRACE: Final = 30

_BACKGROUND: Final = DeleteOptions(propagation_policy=PropagationPolicy.BACKGROUND)
_UNSUPPORTED: Final = (HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_FOUND)


class _EndingSpec(APIStruct, frozen=True):
    termination_grace_period_seconds: int | None = None


class _EndingPod(Projection, frozen=True):
    """The fields of a pod that limit the time of its termination."""

    spec: _EndingSpec = _EndingSpec()
    status: PodStatus = PodStatus()


_ENDING_PODS: Final = Resource("", "v1", "pods", "Pod", _EndingPod)


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
        self._sync_period = options.sync_period

    def backoff(self) -> Backoff:
        """Return a backoff with delays of a minute at most."""
        return ExponentialBackoff(max_delay=_MAX_DELAY)

    async def reconcile(self, cached: Namespace) -> outcome.Outcome:
        """Continue the deletion of the namespace."""
        if not is_deleting(cached):
            return outcome.DONE
        name = cached.metadata.name
        try:
            namespace = await self.client.get(NAMESPACES, "", name)
        except errors.NotFound:
            return outcome.DONE
        if not is_deleting(namespace) or not namespace.spec.finalizers:
            return outcome.DONE
        namespace = await self._announce(namespace)
        findings = await self._delete_content(
            name, namespace.metadata.deletion_timestamp
        )
        namespace = await self._report(namespace, findings)
        after = None
        if findings.remaining:
            # Half the estimate, as in upstream: most pods end before their grace period
            # does. Upstream also syncs each namespace once in a sync period.
            after = findings.estimate // 2 + 1.0
            after = min(after, self._sync_period) if self._sync_period else after
        if problems := findings.problems:
            error = outcome.SyncError("; ".join(problems))
            if len(problems) == len(findings.failures):
                error.__cause__ = errors.gravest(findings.failures)
            return outcome.Failed(error, after)
        if after is not None:
            return outcome.Requeue(after, "content remains")
        if namespace.status.phase != TERMINATING:
            # Users may still create objects in the namespace, which would outlive it.
            msg = f"the phase of the namespace {name} could not be written"
            raise outcome.SyncError(msg)
        await self._finalize(namespace)
        # A finalizer of another controller may keep the namespace, and new objects
        # may be created in it: sync it again.
        return outcome.Done(self._sync_period) if self._sync_period else outcome.DONE

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
        except (errors.Conflict, errors.NotFound):
            raise
        except errors.RequestError as error:
            return self._unreported(namespace, "phase", error)

    async def _delete_content(self, namespace: str, deleted_at: str | None) -> Findings:
        """Request the deletion of all objects; return what remains and why.

        Pods are deleted first. The objects that they may need for their termination,
        such as secrets and network policies, stay until all pods are gone (KEP-5080).
        """
        findings = Findings()
        try:
            discovery = await discover(self.client)
        except errors.RequestError as error:
            findings.discovery_problem = str(error)
            return findings
        findings.discovery_problem = discovery_problem(discovery)
        resources = []
        for each in discovery.preferred("delete"):
            if each.api_version.count("/") > 1:
                problem = f"unexpected GroupVersion string: {each.api_version}"
                findings.parsing_problem = problem
            elif each.namespaced:
                resources.append(each)
        resources.sort(key=lambda each: (each.group, each.plural) != ("", "pods"))
        for resource in resources:
            if findings.remaining[("pods", "")]:
                break
            try:
                await self._delete_resource(resource, namespace, deleted_at, findings)
            except errors.RequestError as error:
                findings.failures.append(error)
        findings.remaining = +findings.remaining
        return findings

    async def _delete_resource(
        self,
        served: ServedResource,
        namespace: str,
        deleted_at: str | None,
        findings: Findings,
    ) -> None:
        """Delete all objects of a resource; add remaining objects to `findings`."""
        grace = 0
        if (served.group, served.plural) == ("", "pods"):
            grace = await self._grace_left(namespace, deleted_at)
            findings.estimate = max(findings.estimate, grace)
        resource = served.metadata_resource()
        if not await self._delete_collection(served, resource, namespace):
            await self._delete_each(served, resource, namespace)
        if "list" not in served.verbs:
            return
        left = await self._list(resource, namespace)
        if not left:
            return
        findings.remaining[served.plural, served.group] += len(left)
        finalizers = [one for each in left for one in each.metadata.finalizers or ()]
        findings.finalizers.update(finalizers)
        if grace:
            return
        if not finalizers:
            msg = (
                f"unexpected items still remain in namespace: {namespace} for gvr: "
                f"{served.group}/{served.version}, Resource={served.plural}"
            )
            findings.failures.append(outcome.SyncError(msg))
        else:
            findings.estimate = max(findings.estimate, _FINALIZER_ESTIMATE)

    async def _delete_collection(
        self, served: ServedResource, resource: Resource[PartialObject], namespace: str
    ) -> bool:
        """Delete the collection; return False if the resource does not support that."""
        if "deletecollection" not in served.verbs:
            return False
        try:
            await self.client.delete_collection(resource, namespace, _BACKGROUND)
        except errors.APIError as error:
            if error.code not in _UNSUPPORTED:
                raise
            return False
        return True

    async def _delete_each(
        self, served: ServedResource, resource: Resource[PartialObject], namespace: str
    ) -> None:
        if "list" not in served.verbs:
            return
        for each in await self._list(resource, namespace):
            try:
                await self.client.delete(
                    resource, namespace, each.metadata.name, _BACKGROUND
                )
            except errors.APIError as error:
                if error.code not in _UNSUPPORTED:
                    raise

    async def _list(
        self, resource: Resource[PartialObject], namespace: str
    ) -> list[PartialObject]:
        try:
            return [
                each
                async for page in self.client.list_all(resource, namespace)
                for each in page.items
            ]
        except errors.APIError as error:
            if error.code not in _UNSUPPORTED:
                raise
            return []

    async def _grace_left(self, namespace: str, deleted_at: str | None) -> int:
        """Return the longest grace period of the running pods, in seconds.

        Returns 0 once that period has passed since the namespace's deletion.
        """
        longest = 0
        async for page in self.client.list_all(_ENDING_PODS, namespace):
            for pod in page.items:
                if pod.status.phase not in TERMINAL_PHASES:
                    grace = pod.spec.termination_grace_period_seconds
                    longest = max(longest, _DEFAULT_GRACE if grace is None else grace)
        began = parse_time(deleted_at) if deleted_at else self.clock.now()
        return longest if seconds_after(began, longest) > self.clock.now() else 0

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
        except errors.RequestError as error:
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
        while True:
            present = namespace.spec.finalizers or ()
            left = tuple(each for each in present if each != FINALIZER)
            spec = msgspec.structs.replace(namespace.spec, finalizers=left)
            changed = msgspec.structs.replace(namespace, spec=spec)
            try:
                await self.client.update_for_metadata(NAMESPACES, changed, "finalize")
            except errors.NotFound:
                return
            except errors.Conflict:
                fresh = await self.client.get(NAMESPACES, "", namespace.metadata.name)
                if fresh.metadata.uid != namespace.metadata.uid:
                    return
                namespace = fresh
            else:
                return
