"""Creates and deletes daemon pods (syncNodes)."""

import asyncio
from typing import Final

from msgspec import Struct

from controller_manager.api.apps.v1 import DAEMON_SETS, DaemonSet
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import key_of
from controller_manager.api.owners import controller_reference
from controller_manager.client.errors import (
    APIError,
    NotFound,
    TransportError,
    gravest,
    is_namespace_terminating,
    may_be_applied,
)
from controller_manager.client.events import NORMAL, WARNING, EventRecorder
from controller_manager.control.expectations import Expectations
from controller_manager.control.pod_control import PodControl, pod_from_template
from controller_manager.control.slow_start import slow_start

from .actions import Deletion, Plan
from .backoff import FailedPodBackoff
from .pod_template import PodTemplates

FAILED_DAEMON_POD: Final = "FailedDaemonPod"
SUCCEEDED_DAEMON_POD: Final = "SucceededDaemonPod"


class Applied(Struct):
    """The pods that were created and deleted, and the first failure."""

    created: list[Pod]
    deleted: list[str]
    failure: Exception | None = None


class DaemonPods:
    """Carries out plans, and records the writes that the cache must show."""

    def __init__(
        self,
        control: PodControl,
        recorder: EventRecorder,
        expectations: Expectations,
        backoff: FailedPodBackoff,
    ) -> None:
        self._control = control
        self._recorder = recorder
        self._expectations = expectations
        self._backoff = backoff

    async def carry_out(
        self, daemon_set: DaemonSet, plan: Plan, revision_hash: str
    ) -> Applied:
        """Create the pods by slow start, then delete the others, all at once.

        Tries the deletions even if a creation has failed.
        """
        key = key_of(daemon_set)
        uids = {each.pod.metadata.uid for each in plan.deletions}
        self._expectations.expect_more(key, len(plan.nodes), uids)
        for each in plan.deletions:
            if each.has_ended:
                self._record_end(daemon_set, each)
        for node in plan.nodes:
            generation = daemon_set.status.observed_generation
            self._backoff.created(key, generation, node)
        applied = Applied([], [])
        applied.failure = await self._create(daemon_set, plan, revision_hash, applied)
        results = await asyncio.gather(
            *(self._delete(daemon_set, each.pod, applied) for each in plan.deletions),
            return_exceptions=True,
        )
        failures = (applied.failure, *results)
        applied.failure = gravest(
            each for each in failures if isinstance(each, Exception)
        )
        return applied

    def _record_end(self, daemon_set: DaemonSet, deletion: Deletion) -> None:
        """Record why an ended pod is deleted; begin the delay of a failed pod."""
        metadata = deletion.pod.metadata
        which = f"{metadata.namespace}/{metadata.name} on node {deletion.node}"
        if deletion.pod.status.phase == "Failed":
            generation = daemon_set.status.observed_generation
            key, uid = key_of(daemon_set), metadata.uid
            self._backoff.replaced(key, generation, deletion.node, uid)
            message = f"Found failed daemon pod {which}, will try to kill it"
            event = WARNING, FAILED_DAEMON_POD, message
        else:
            message = f"Found succeeded daemon pod {which}, will try to delete it"
            event = NORMAL, SUCCEEDED_DAEMON_POD, message
        self._recorder.event(DAEMON_SETS, daemon_set, *event)

    async def _create(
        self, daemon_set: DaemonSet, plan: Plan, revision_hash: str, applied: Applied
    ) -> Exception | None:
        if not plan.nodes:
            return None
        key, count = key_of(daemon_set), len(plan.nodes)
        templates = PodTemplates(daemon_set, revision_hash)
        reference = controller_reference(
            daemon_set, DAEMON_SETS.api_version, DAEMON_SETS.kind
        )
        nodes = iter(plan.nodes)

        async def create_one() -> None:
            template = templates.for_node(next(nodes))
            body = pod_from_template(template, daemon_set, reference)
            try:
                pod = await self._control.create_whole(daemon_set, body)
                applied.created.append(pod)
            except Exception as error:
                if may_be_applied(error):
                    self._expectations.outcome_unknown(key)
                else:
                    self._expectations.creations_settled(key)
                raise

        started, failure = await slow_start(count, create_one)
        # The cache will never show creations that were not tried.
        self._expectations.creations_settled(key, count - started)
        if failure is not None and is_namespace_terminating(failure):
            return None  # no error: no object can be created in that namespace
        return failure

    async def _delete(self, daemon_set: DaemonSet, pod: Pod, applied: Applied) -> None:
        key, uid = key_of(daemon_set), pod.metadata.uid
        try:
            await self._control.delete(daemon_set, pod)
        except NotFound:
            self._expectations.deletion_settled(key, uid)
        except (APIError, TransportError):
            # Deleting the same pod twice does no harm, so the outcome of this
            # deletion need not be known.
            self._expectations.deletion_settled(key, uid)
            raise
        applied.deleted.append(uid)
