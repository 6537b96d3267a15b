"""Creates and deletes the pods of an owner (controller_utils.go).

Slow start writes one pod first, then batches that double. Reasons and messages of
events are those of RealPodControl.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from controller_manager.api import meta
from controller_manager.api.core.v1 import PODS, Pod, PodTemplateSpec
from controller_manager.client.events.recorder import NORMAL, WARNING, EventRecorder
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client

ItemT = TypeVar("ItemT")

LARGEST_BATCH: Final = 256
"""The most writes of one batch: their bodies are made in one turn of the event loop."""


async def slow_start(
    count: int, action: Callable[[], Awaitable[None]]
) -> tuple[int, Exception | None]:
    """Run `action` `count` times, in batches of 1, 2, 4, 8 and so on, up to 256.

    A batch runs concurrently. After a batch with a failure no further batch is
    started: an exhausted quota refuses one write, not 500. Returns how many runs
    were started, and the gravest failure if there was one.
    """
    started, batch = 0, 1
    while started < count:
        size = min(batch, count - started)
        results = await asyncio.gather(
            *(action() for _ in range(size)), return_exceptions=True
        )
        started += size
        failures = [each for each in results if isinstance(each, Exception)]
        if failures:
            return started, errors.gravest(failures)
        for result in results:
            if result is not None:
                raise result  # a cancellation must not be swallowed
        batch = min(2 * batch, LARGEST_BATCH)
    return started, None


async def at_once(
    items: Sequence[ItemT], write: Callable[[ItemT], Awaitable[None]]
) -> tuple[tuple[ItemT, ...], Exception | None]:
    """Write for all items at once; return those that were written, and a failure."""
    results = await asyncio.gather(*map(write, items), return_exceptions=True)
    done: list[ItemT] = []
    failures: list[Exception] = []
    for item, result in zip(items, results, strict=True):
        if result is None:
            done.append(item)
        elif isinstance(result, Exception):
            failures.append(result)
        else:
            raise result  # a cancellation must not be swallowed
    return tuple(done), errors.gravest(failures)


def pod_from_template(
    template: PodTemplateSpec,
    owner: meta.KubeObject,
    reference: meta.OwnerReference,
    generate_name: str = "",
) -> bytes:
    """Return the request body of a pod, encoded once for a whole burst."""
    # The spec of the template is copied as bytes, so none of its fields can be lost.
    metadata: dict[str, Any] = {
        "generateName": generate_name or f"{owner.metadata.name}-",
        "namespace": owner.metadata.namespace,
        "labels": template.metadata.labels or {},
    }
    if template.metadata.annotations:
        metadata["annotations"] = template.metadata.annotations
    if template.metadata.finalizers:
        metadata["finalizers"] = template.metadata.finalizers
    metadata["ownerReferences"] = [reference]
    body: dict[str, Any | Raw] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template.spec,
    }
    return msgspec.json.encode(body)


class PodControl:
    """Writes pods on behalf of an owner and records events on it."""

    def __init__(
        self, client: Client, recorder: EventRecorder, owner_resource: meta.AnyResource
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._owner_resource = owner_resource

    async def create(
        self, resource: meta.Resource[meta.ObjectT], owner: meta.KubeObject, body: bytes
    ) -> meta.ObjectT:
        """Create a pod from an encoded body; return it, or its metadata, as stored."""
        namespace = owner.metadata.namespace
        try:
            pod = await self._client.create_json(resource, namespace, body)
        except (errors.APIError, errors.TransportError) as error:
            if not errors.is_namespace_terminating(error):
                message = f"Error creating: {error}"
                self._record(owner, WARNING, "FailedCreate", message)
            raise
        message = f"Created pod: {pod.metadata.name}"
        self._record(owner, NORMAL, "SuccessfulCreate", message)
        return pod

    async def delete(self, owner: meta.KubeObject, pod: Pod) -> None:
        """Delete the pod with this uid; raises NotFound if it is gone already."""
        try:
            await self._client.delete_exactly(PODS, pod)
        except errors.NotFound:
            raise
        except (errors.APIError, errors.TransportError) as error:
            message = f"Error deleting: {error}"
            self._record(owner, WARNING, "FailedDelete", message)
            raise
        message = f"Deleted pod: {pod.metadata.name}"
        self._record(owner, NORMAL, "SuccessfulDelete", message)

    def _record(
        self, owner: meta.KubeObject, kind: str, reason: str, message: str
    ) -> None:
        self._recorder.event(self._owner_resource, owner, kind, reason, message)
