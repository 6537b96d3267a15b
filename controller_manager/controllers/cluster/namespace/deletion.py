"""Deletes the content of a namespace (deletion/namespaced_resources_deleter.go)."""

from http import HTTPStatus
from typing import Final

from controller_manager.api.core.v1 import PodStatus
from controller_manager.api.meta import APIStruct, PartialObject, Projection
from controller_manager.api.pods import TERMINAL_PHASES
from controller_manager.api.resource import Resource
from controller_manager.api.times import parse_time, seconds_after
from controller_manager.client.client import Client, DeleteOptions, PropagationPolicy
from controller_manager.client.discovery import ServedResource, discover
from controller_manager.client.errors import APIError, ProtocolError, TransportError
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.runtime.outcome import SyncError

from .conditions import Findings, discovery_problem

_FINALIZER_ESTIMATE: Final = 15
"""The estimated seconds until finalizers release objects."""

_DEFAULT_GRACE: Final = 30

_BACKGROUND: Final = DeleteOptions(propagation_policy=PropagationPolicy.BACKGROUND)
_UNSUPPORTED: Final = (HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_FOUND)
FAILURES: Final = (APIError, TransportError, ProtocolError)
"""The errors of a request; each is added to the findings, and the deletion goes on."""


class _EndingSpec(APIStruct, frozen=True):
    termination_grace_period_seconds: int | None = None


class _EndingPod(Projection, frozen=True):
    """The fields of a pod that limit the time of its termination."""

    spec: _EndingSpec = _EndingSpec()
    status: PodStatus = PodStatus()


_ENDING_PODS: Final = Resource("", "v1", "pods", "Pod", _EndingPod)


class ContentDeleter:
    """Deletes all objects in a namespace, of every resource that discovery lists."""

    def __init__(self, client: Client, clock: Clock, logger: Logger) -> None:
        self._client = client
        self._clock = clock
        self._logger = logger

    async def delete_all(self, namespace: str, deleted_at: str | None) -> Findings:
        """Request the deletion of all objects; return what remains and why.

        Pods are deleted first. The objects that they may need for their termination,
        such as secrets and network policies, stay until all pods are gone (KEP-5080).
        """
        findings = Findings()
        try:
            discovery = await discover(self._client)
        except FAILURES as error:
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
                await self._delete(resource, namespace, deleted_at, findings)
            except FAILURES as error:
                findings.failures.append(error)
        findings.remaining = +findings.remaining
        return findings

    async def _delete(
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
        held = [each for each in left if each.metadata.finalizers]
        for each in held:
            findings.finalizers.update(each.metadata.finalizers or ())
        if grace:
            return
        if not held:
            msg = (
                f"unexpected items still remain in namespace: {namespace} for gvr: "
                f"{served.group}/{served.version}, Resource={served.plural}"
            )
            findings.failures.append(SyncError(msg))
        else:
            findings.estimate = max(findings.estimate, _FINALIZER_ESTIMATE)

    async def _delete_collection(
        self, served: ServedResource, resource: Resource[PartialObject], namespace: str
    ) -> bool:
        """Delete the collection; return False if the resource does not support that."""
        if "deletecollection" not in served.verbs:
            return False
        try:
            await self._client.delete_collection(resource, namespace, _BACKGROUND)
        except APIError as error:
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
                await self._client.delete(
                    resource, namespace, each.metadata.name, _BACKGROUND
                )
            except APIError as error:
                if error.code not in _UNSUPPORTED:
                    raise

    async def _list(
        self, resource: Resource[PartialObject], namespace: str
    ) -> list[PartialObject]:
        try:
            return [
                each
                async for page in self._client.list_all(resource, namespace)
                for each in page.items
            ]
        except APIError as error:
            if error.code not in _UNSUPPORTED:
                raise
            return []

    async def _grace_left(self, namespace: str, deleted_at: str | None) -> int:
        """Return the longest grace period of the running pods, in seconds.

        Returns 0 once that period has passed since the namespace's deletion.
        """
        longest = 0
        async for page in self._client.list_all(_ENDING_PODS, namespace):
            for pod in page.items:
                if pod.status.phase not in TERMINAL_PHASES:
                    grace = pod.spec.termination_grace_period_seconds
                    longest = max(longest, _DEFAULT_GRACE if grace is None else grace)
        began = parse_time(deleted_at) if deleted_at else self._clock.now()
        return longest if seconds_after(began, longest) > self._clock.now() else 0
