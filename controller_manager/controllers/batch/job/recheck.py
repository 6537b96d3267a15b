"""Looks at the API server when the cache may be stale."""

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import PODS
from controller_manager.api.meta import key_of, labels_of
from controller_manager.api.selectors import Selector, format_selector
from controller_manager.client.client import ListOptions
from controller_manager.client.errors import APIError, NotFound, is_about
from controller_manager.runtime.context import ControllerContext


class Recheck:
    """Reads jobs and pods, and has keys wait until the caches show what was read."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context."""
        self._client = context.client
        self._consistency = context.consistency
        self._logger = context.logger

    async def job_and_pods(self, job: Job, selector: Selector) -> set[str]:
        """Record the versions that the caches must reach before the next writes.

        Returns the uids of the pods that the selector matches.

        A write got no response, was not seen for five minutes, or may have been made
        by a former leader. A quorum read returns the pods that exist, so it shows the
        result of that write. The watch will show the versions of these pods; it may
        never show the version of the list itself.
        """
        key, metadata = key_of(job), job.metadata
        stored = await self._client.get(JOBS, metadata.namespace, metadata.name)
        self._consistency.record(key, JOBS, stored)
        options = ListOptions(label_selector=format_selector(job.spec.selector))
        present: set[str] = set()
        async for page in self._client.list_all(PODS, metadata.namespace, options):
            for pod in page.items:
                if selector.matches(labels_of(pod)):
                    self._consistency.record(key, PODS, pod)
                    present.add(pod.metadata.uid)
        self._logger.v(2).info("The cache may be stale, read from the API server")
        return present

    async def is_gone(self, job: Job, error: APIError) -> bool:
        """Tell whether a refusal means that the job is gone.

        If the refusal is about the job and it is not gone, its key waits until the
        cache shows what is stored.
        """
        metadata = job.metadata
        if not is_about(error, metadata.name):
            return False
        try:
            stored = await self._client.get(JOBS, metadata.namespace, metadata.name)
        except NotFound as missing:
            return is_about(missing, metadata.name)
        self._consistency.record(key_of(job), JOBS, stored)
        return stored.metadata.uid != metadata.uid
