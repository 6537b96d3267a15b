"""Writes the claims of a stateful set (stateful_pod_control.go).

The role does not allow to patch claims. So their owners are changed by PUT, from a
copy that was just read.
"""

from msgspec.structs import replace

from controller_manager.api.apps.v1 import STATEFUL_SETS, StatefulSet
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import is_deleting
from controller_manager.client.client import Client
from controller_manager.client.errors import (
    AlreadyExists,
    APIError,
    NotFound,
    TransportError,
    gravest,
    is_about,
    is_namespace_terminating,
)
from controller_manager.runtime.outcome import SyncError

from .actions import ClaimChanges
from .claim_retention import References, corrected_owners
from .events import StatefulSetEvents


class ClaimProblem(SyncError):
    """A claim cannot be created or corrected; its pod must wait."""


class Outdated(SyncError):
    """The set has changed since it was cached; its claims keep their owners."""


class ClaimControl:
    """Creates the claims of one set's pods and corrects their owners.

    A claim is deleted with its owner, so a wrong owner may cost data. Before the first
    change of an owner the set is read again from the API server: it must be the same
    set with the same spec, and not be deleted. A pod must exist to become an owner.
    """

    def __init__(
        self, client: Client, stateful_set: StatefulSet, events: StatefulSetEvents
    ) -> None:
        self._client = client
        self._stateful_set = stateful_set
        self._events = events
        self._is_checked = False

    async def create(self, pod: str, work: ClaimChanges) -> None:
        """Create the missing claims of the pod of that name.

        Tries all of them. Raises ClaimProblem with the problems of all claims that
        cannot be created or are being deleted. If the namespace is being deleted,
        raises the error of the API server at once.
        """
        problems = [ClaimProblem(_is_being_deleted(name)) for name in work.deleting]
        for claim in work.missing:
            try:
                await self._create(pod, claim)
            except ClaimProblem as problem:
                problems.append(problem)
        if problems:
            text = ", ".join(map(str, problems))
            text = text if len(problems) == 1 else f"[{text}]"
            raise ClaimProblem(text) from gravest(problems)

    async def _create(self, pod: str, claim: PersistentVolumeClaim) -> None:
        name = claim.metadata.name
        try:
            await self._client.create_for_metadata(CLAIMS, claim)
        except AlreadyExists:
            await self._check_existing(name)
        except (APIError, TransportError) as error:
            if is_namespace_terminating(error):
                raise
            self._events.claim(name, pod, error)
            msg = f"failed to create PVC {name}: {error}"
            raise ClaimProblem(msg) from error
        else:
            self._events.claim(name, pod)

    async def _check_existing(self, name: str) -> None:
        """Use a claim that the cache does not show yet, unless it is being deleted."""
        namespace = self._stateful_set.metadata.namespace
        existing = await self._client.get(CLAIMS, namespace, name)
        if is_deleting(existing):
            raise ClaimProblem(_is_being_deleted(name))

    async def correct_owners(self, pod: Pod, work: ClaimChanges) -> None:
        """Give claims the owners that the retention policy requires.

        Raises ClaimProblem for the first claim that cannot be changed, and Outdated if
        the API server has another version of the set.
        """
        self.report_conflicts(work)
        for name in work.owners:
            try:
                await self._correct(pod, name)
            except (APIError, TransportError) as error:
                msg = f"could not update claim {name} for delete policy ownerRefs: "
                raise ClaimProblem(msg + str(error)) from error

    def report_conflicts(self, work: ClaimChanges) -> None:
        """Record an event for each claim that has another controller."""
        for name in work.conflicts:
            self._events.conflict(name)

    async def _correct(self, pod: Pod, name: str) -> None:
        namespace = self._stateful_set.metadata.namespace
        try:
            claim = await self._client.get(CLAIMS, namespace, name)
        except NotFound as error:
            if not is_about(error, name):
                raise
            return
        owners = corrected_owners(claim, self._stateful_set, pod)
        if owners is None or not await self._may_own(pod, owners):
            return
        metadata = replace(claim.metadata, owner_references=owners or None)
        await self._client.update_for_metadata(
            CLAIMS, replace(claim, metadata=metadata)
        )

    async def _may_own(self, pod: Pod, owners: References) -> bool:
        """Tell whether the pod exists, if it is among the owners."""
        await self._check_set()
        metadata = pod.metadata
        if all(each.uid != metadata.uid for each in owners):
            return True
        try:
            fresh = await self._client.get(PODS, metadata.namespace, metadata.name)
        except NotFound as error:
            if not is_about(error, metadata.name):
                raise
            return False
        return fresh.metadata.uid == metadata.uid

    async def _check_set(self) -> None:
        """Read the set again, once in a sync."""
        if self._is_checked:
            return
        cached = self._stateful_set.metadata
        fresh = await self._client.get(STATEFUL_SETS, cached.namespace, cached.name)
        seen = (cached.uid, cached.generation)
        stored = (fresh.metadata.uid, fresh.metadata.generation)
        if stored != seen or is_deleting(fresh):
            msg = f"StatefulSet {cached.namespace}/{cached.name} has just changed"
            raise Outdated(msg)
        self._is_checked = True


def _is_being_deleted(name: str) -> str:
    return f"pvc {name} is being deleted"
