"""Removes the finalizer from pods that no job counts any more (syncOrphanPod)."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Final
from weakref import WeakValueDictionary

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import controller_of, is_deleting, key_of, metadata_of
from controller_manager.api.selectors import SelectorError, compile_selector
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import Conflict, NotFound, is_about
from controller_manager.control.expectations import live
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.store import (
    BY_CONTROLLER,
    BY_SELECTED_LABEL,
    ORPHANS,
    ORPHANS_BY_LABEL,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, Requeue
from controller_manager.runtime.worker import Workers
from controller_manager.workqueue.ratelimiters import ExponentialBackoff

from . import JobOptions
from .metrics import JobMetrics
from .pods import FINALIZER, external_manager, has_finalizer
from .status import is_finished

FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 60.0
"""The seconds of the first and of the longest delay of a retry."""

_CACHE_RECHECK: Final = 5.0
"""Seconds until the next look at the cache of jobs."""

KEPT: Final = 100
"""The number of gone jobs that are remembered; others are asked for again.

The pods of a job come one after the other, so a few are enough.
"""


async def remove_finalizer(
    client: Client, pod: Pod, *, unless_changed: bool = False
) -> None:
    """Remove the finalizer of jobs from a pod, unless the pod is gone.

    The uid is a precondition. With `unless_changed`, raises Conflict if the pod differs
    from the cached one.
    """
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    try:
        await client.patch_exactly(
            metadata_of(PODS), pod, patch, same_version=unless_changed
        )
    except NotFound as error:
        if not is_about(error, pod.metadata.name):
            raise


class OrphanPods:
    """Watches pods with the finalizer that lose their job.

    These are pods without an owner that no job will adopt, and pods that are being
    deleted while their job is gone or has finished. A pod of another controller's kind
    or of a job that is managed by another controller is left alone.

    Upstream removes the finalizer also from pods that a job is about to adopt, or
    adopts at the same time. If the pod has ended, it is then counted twice, or never:
    the status may have mentioned it.
    """

    def __init__(self, context: ControllerContext, metrics: JobMetrics) -> None:
        self._context = context
        self._client = context.client
        self._metrics = metrics
        self._queue = context.queue(
            "job_orphan_pod", ExponentialBackoff(FIRST_RETRY, LAST_RETRY)
        )
        self._gone = GoneJobs(context.client)
        self._jobs = context.lister(JOBS, BY_SELECTED_LABEL)
        self._pods = context.lister(PODS, BY_CONTROLLER, ORPHANS, ORPHANS_BY_LABEL)
        context.informers.informer(PODS).add_handler(
            Handler(
                on_add=lambda new: self._pod_changed(None, new),
                on_update=self._pod_changed,
                on_delete=lambda old: self._metrics.pod_changed(old, None),
                depends_on=DependsOn(
                    "metadata.deletionTimestamp",
                    "metadata.finalizers",
                    "metadata.labels",
                    "metadata.ownerReferences",
                    "status.phase",
                ),
            )
        )
        context.informers.informer(JOBS).add_handler(
            Handler(on_update=self._job_updated, on_delete=self._job_ended)
        )

    def make_workers(self) -> Workers:
        """Return as many workers as jobs have, not yet running, as upstream does."""
        count = self._context.config.of(JobOptions).concurrent_syncs
        return self._context.workers(self._queue, self._sync, count, self._enqueue_all)

    def _enqueue_all(self) -> Iterator[None]:
        pods = self._pods.all()
        yield from self._context.one_by_one(pods, self._enqueue_if_orphan)

    def _pod_changed(self, old: Pod | None, new: Pod) -> None:
        self._metrics.pod_changed(old, new)
        self._enqueue_if_orphan(new)

    def _enqueue_if_orphan(self, pod: Pod) -> None:
        if not has_finalizer(pod):
            return
        if (controller_of(pod) is None or is_deleting(pod)) and self._is_orphan(pod):
            self._queue.add(key_of(pod))

    def _job_updated(self, _: Job, new: Job) -> None:
        if is_finished(new):
            self._job_ended(new)

    def _job_ended(self, job: Job) -> None:
        pods = self._pods.controlled_by(job)
        with suppress(SelectorError):
            pods = self._pods.candidates(job, compile_selector(job.spec.selector))
        for pod in pods:
            if has_finalizer(pod):
                self._queue.add(key_of(pod))

    def _is_orphan(self, pod: Pod) -> bool:
        reference = controller_of(pod)
        if reference is None:
            return is_deleting(pod) or not any(map(_adopts, self._jobs.selecting(pod)))
        if (reference.kind, reference.api_version) != (JOBS.kind, JOBS.api_version):
            return False
        job = self._jobs.controller_of(pod)
        if job is None:
            return True
        return external_manager(job) is None and is_finished(job)

    async def _sync(self, key: str) -> Outcome:
        pod = self._pods.by_key(key)
        if pod is None or not has_finalizer(pod) or not self._is_orphan(pod):
            return DONE
        if not await self._has_no_job(pod):
            return Requeue(_CACHE_RECHECK, "the cache does not show the job of the pod")
        # A job may adopt a pod without an owner, and must count it, at the same time.
        unless_changed = controller_of(pod) is None
        try:
            await remove_finalizer(self._client, pod, unless_changed=unless_changed)
        except Conflict:
            return Requeue(_CACHE_RECHECK, "the pod has changed")
        if self._jobs.by_key(key) is None:
            # No key waits for the cache to show this write: this is a pod's key.
            self._context.consistency.forget(key)
        return DONE

    async def _has_no_job(self, pod: Pod) -> bool:
        # The cache of jobs may be behind the cache of pods, and the job may have to
        # count the pod: the API server is asked.
        reference = controller_of(pod)
        if reference is None or self._jobs.controller_of(pod) is not None:
            return True
        namespace = pod.metadata.namespace
        return await self._gone.is_gone(namespace, reference.name, reference.uid)


class GoneJobs:
    """The jobs that the API server has last reported as gone.

    Several workers may need the same job at a time. One of them asks for it, the others
    wait for the answer. A job that exists may be gone later, so each of them asks then.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._uids: dict[str, None] = {}
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """A lock for each uid that a worker asks for; it is dropped afterwards."""

    def __len__(self) -> int:
        """Return the number of jobs that are remembered."""
        return len(self._uids)

    async def is_gone(self, namespace: str, name: str, uid: str) -> bool:
        """Tell whether a job is gone; ask the API server if that is not known."""
        lock = self._asking.setdefault(uid, asyncio.Lock())
        async with lock:
            if uid in self._uids:
                return True
            job = await live(self._client, JOBS, namespace, name)
            if job is not None and job.metadata.uid == uid:
                return False
            self._uids[uid] = None
            if len(self._uids) > KEPT:
                del self._uids[next(iter(self._uids))]
            return True


def _adopts(job: Job) -> bool:
    return not (is_finished(job) or is_deleting(job) or external_manager(job))
