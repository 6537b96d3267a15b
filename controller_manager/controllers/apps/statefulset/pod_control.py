"""Writes the pods of a stateful set and their claims (stateful_pod_control.go).

The role does not allow to patch claims. So their owners are changed by PUT, from a
copy that was just read.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from controller_manager.api.apps.v1 import STATEFUL_SETS, StatefulSet
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod, PodTemplateSpec
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import (
    is_deleting,
    key_of,
    metadata_of,
    owned_by,
    split_key,
)
from controller_manager.client.events.recorder import NORMAL, WARNING, EventRecorder
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client
from controller_manager.control.controller_history import POD_REVISION_LABEL
from controller_manager.control.expectations import live
from controller_manager.runtime.outcome import SyncError

from . import identity
from .identity import ClaimChanges
from .ordering import PodWork
from .replicas import Revisions

_REASONS: Final = {
    "Create": ("SuccessfulCreate", "FailedCreate"),
    "Update": ("SuccessfulUpdate", "FailedUpdate"),
    "Delete": ("SuccessfulDelete", "FailedDelete"),
}
"""The reasons of the events about a pod."""


class NameInUse(SyncError):
    """A pod that the set does not control has the name of a wanted pod."""


class ClaimProblem(SyncError):
    """A claim cannot be created or corrected; its pod must wait."""


class Outdated(SyncError):
    """The set has changed since it was cached; its claims keep their owners."""


class UnseenDeletions:
    """The pods that were deleted for each key, as long as the cache shows them.

    A deletion has no version that a sync could wait for, so the uids of the pods are
    kept. A set is not synced while the cache shows one of these pods as not being
    deleted: each sync would delete it again.
    """

    def __init__(self, pods: Callable[[str, str], Pod | None]) -> None:
        self._pods = pods
        self._names: dict[str, dict[str, str]] = {}
        """The names of the pods by uid, for each key."""

    def sent(self, key: str, pod: Pod) -> None:
        """Expect the deletion of a pod, which is about to be sent."""
        self._names.setdefault(key, {})[pod.metadata.uid] = pod.metadata.name

    def failed(self, key: str, pod: Pod) -> None:
        """Stop expecting the deletion of a pod; a second deletion does no harm."""
        self._names.get(key, {}).pop(pod.metadata.uid, None)

    def are_unseen(self, key: str) -> bool:
        """Tell whether the cache shows fewer deletions than were sent for a key."""
        namespace, unseen = split_key(key)[0], {}
        for uid, name in self._names.pop(key, {}).items():
            pod = self._pods(namespace, name)
            if pod is not None and pod.metadata.uid == uid and not is_deleting(pod):
                unseen[uid] = name
        if unseen:
            self._names[key] = unseen
        return bool(unseen)

    def forget(self, key: str) -> None:
        """Drop the deletions of a key that is gone."""
        self._names.pop(key, None)


class StatefulPodControl:
    """Writes the pods of one set and their claims, in one sync.

    A claim is deleted with its owner, so a wrong owner may cost data. Before the first
    change of an owner the set is read again from the API server: it must be the same
    set with the same spec, and not be deleted. A pod must exist to become an owner.
    """

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        deletions: UnseenDeletions,
        stateful_set: StatefulSet,
        revisions: Revisions,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._deletions = deletions
        self._set = stateful_set
        self._revisions = revisions
        self._is_set_checked = False

    # Pods.

    async def create_pod(self, work: PodWork) -> None:
        """Create the claims of a pod that do not exist, then the pod."""
        slot, namespace = work.slot, self._set.metadata.namespace
        try:
            await self.create_claims(slot.name, work.claims)
            template = self._revisions.template(self._set, work.revision)
            body = pod_body(self._set, template, work.revision, slot.ordinal)
            await self._client.create_json(metadata_of(PODS), namespace, body)
        except errors.AlreadyExists:
            # The cache will show the pod, which this set or another owner controls.
            raise
        except (errors.APIError, errors.TransportError, ClaimProblem) as error:
            if not errors.is_namespace_terminating(error):
                self._pod_event("Create", slot.name, error)
            raise
        self._report_conflicts(work.claims)
        self._pod_event("Create", slot.name)

    def refuse_name(self, name: str) -> None:
        """Report that a pod of another owner has a wanted name; raise NameInUse."""
        error = NameInUse(f'pods "{name}" already exists')
        self._pod_event("Create", name, error)
        raise error

    async def update_pod(self, pod: Pod, work: PodWork) -> None:
        """Give a pod its identity back, and its claims the right owners."""
        # The volumes of the pod stay: the API server refuses to change them, also for
        # upstream, which tries.
        metadata, claims = pod.metadata, work.claims
        if pod.status.phase == "Pending":
            if claims.is_needed:
                await self._complete_claims(pod, claims)
            claims = ClaimChanges()
        if not (claims.owners or work.restores_identity):
            return
        try:
            await self.correct_owners(pod, claims)
            if work.restores_identity:
                labels = identity.identity_labels(metadata.name, work.slot.ordinal)
                await self._client.patch_exactly(
                    metadata_of(PODS), pod, {"metadata": {"labels": labels}}
                )
        except (errors.APIError, errors.TransportError, ClaimProblem) as error:
            self._pod_event("Update", metadata.name, error)
            raise
        self._pod_event("Update", metadata.name)

    async def _complete_claims(self, pod: Pod, claims: ClaimChanges) -> None:
        await self.create_claims(pod.metadata.name, claims)
        try:
            await self.correct_owners(pod, claims)
        except ClaimProblem as error:
            self._pod_event("Update", pod.metadata.name, error)
            raise

    async def delete_pod(self, pod: Pod) -> None:
        """Delete exactly this pod; a pod that is gone already is no error."""
        metadata, key = pod.metadata, key_of(self._set)
        self._deletions.sent(key, pod)
        try:
            await self._client.delete_exactly(PODS, pod)
        except (errors.APIError, errors.TransportError) as error:
            if isinstance(error, errors.NotFound) and errors.is_about(
                error, metadata.name
            ):
                return
            self._deletions.failed(key, pod)
            if not isinstance(error, errors.Conflict):  # another pod has the name
                self._pod_event("Delete", metadata.name, error)
            raise
        self._pod_event("Delete", metadata.name)

    # Claims.

    async def create_claims(self, pod: str, work: ClaimChanges) -> None:
        """Create the missing claims of the pod of that name; try all of them.

        Raises ClaimProblem with all problems, and at once the error of the API server
        if the namespace is being deleted.
        """
        problems = [_being_deleted(name) for name in work.deleting]
        for claim in work.missing:
            try:
                await self._create_claim(pod, claim)
            except ClaimProblem as problem:
                problems.append(problem)
        if problems:
            text = ", ".join(map(str, problems))
            text = text if len(problems) == 1 else f"[{text}]"
            raise ClaimProblem(text) from errors.gravest(problems)

    async def _create_claim(self, pod: str, claim: PersistentVolumeClaim) -> None:
        name, namespace = claim.metadata.name, self._set.metadata.namespace
        about = f"Pod {pod} in StatefulSet {self._set.metadata.name}"
        try:
            await self._client.create_for_metadata(CLAIMS, claim)
        except errors.AlreadyExists:
            # The cache does not show the claim yet.
            existing = await self._client.get(CLAIMS, namespace, name)
            if is_deleting(existing):
                raise _being_deleted(name) from None
        except (errors.APIError, errors.TransportError) as error:
            if errors.is_namespace_terminating(error):
                raise
            message = f"Create Claim {name} for {about} failed error: {error}"
            self._event(WARNING, "FailedCreate", message)
            msg = f"failed to create PVC {name}: {error}"
            raise ClaimProblem(msg) from error
        else:
            message = f"Create Claim {name} {about} success"
            self._event(NORMAL, "SuccessfulCreate", message)

    async def correct_owners(self, pod: Pod, work: ClaimChanges) -> None:
        """Give claims the owners that the retention policy requires.

        Raises ClaimProblem for the first claim that cannot be changed, and Outdated if
        the API server has another version of the set.
        """
        self._report_conflicts(work)
        for name in work.owners:
            try:
                await self._correct_owner(pod, name)
            except (errors.APIError, errors.TransportError) as error:
                msg = f"could not update claim {name} for delete policy ownerRefs: "
                raise ClaimProblem(msg + str(error)) from error

    async def _correct_owner(self, pod: Pod, name: str) -> None:
        namespace = self._set.metadata.namespace
        claim = await live(self._client, CLAIMS, namespace, name)
        if claim is None:
            return
        owners = identity.corrected_owners(claim, self._set, pod)
        if owners is None or not await self._may_own(pod, owners):
            return
        metadata = replace(claim.metadata, owner_references=owners or None)
        changed = replace(claim, metadata=metadata)
        await self._client.update_for_metadata(CLAIMS, changed)

    async def _may_own(self, pod: Pod, owners: identity.References) -> bool:
        await self._check_set()
        metadata = pod.metadata
        if all(each.uid != metadata.uid for each in owners):
            return True
        fresh = await live(self._client, PODS, metadata.namespace, metadata.name)
        return fresh is not None and fresh.metadata.uid == metadata.uid

    def check_set_again(self) -> None:
        """Read the set again before the next change of an owner."""
        self._is_set_checked = False

    async def _check_set(self) -> None:
        """Read the set from the API server, unless that was done before."""
        if self._is_set_checked:
            return
        cached = self._set.metadata
        fresh = await self._client.get(STATEFUL_SETS, cached.namespace, cached.name)
        seen = (cached.uid, cached.generation)
        stored = (fresh.metadata.uid, fresh.metadata.generation)
        if stored != seen or is_deleting(fresh):
            msg = f"StatefulSet {cached.namespace}/{cached.name} has just changed"
            raise Outdated(msg)
        self._is_set_checked = True

    # Events.

    def _report_conflicts(self, work: ClaimChanges) -> None:
        """Record the claims that have another controller; upstream's spelling."""
        for claim in work.conflicts:
            message = (
                f"PersistentVolumeClaim {claim} has a conflicting OwnerReference that "
                "acts as a manging controller, the retention policy is ignored for "
                "this claim"
            )
            self._event(WARNING, "ConflictingController", message)

    def _pod_event(self, verb: str, pod: str, error: Exception | None = None) -> None:
        about = f"{verb} Pod {pod} in StatefulSet {self._set.metadata.name}"
        successful, failed = _REASONS[verb]
        if error is None:
            self._event(NORMAL, successful, f"{about} successful")
        else:
            self._event(WARNING, failed, f"{about} failed error: {error}")

    def _event(self, event_type: str, reason: str, message: str) -> None:
        self._recorder.event(STATEFUL_SETS, self._set, event_type, reason, message)


def _being_deleted(claim: str) -> ClaimProblem:
    return ClaimProblem(f"pvc {claim} is being deleted")


def pod_body(
    stateful_set: StatefulSet, template: PodTemplateSpec, revision: str, ordinal: int
) -> bytes:
    """Return the request body of the pod with an ordinal (newStatefulSetPod)."""
    name = identity.pod_name(stateful_set, ordinal)
    made_from, owner = template.metadata, stateful_set.metadata
    metadata: JSON = {
        "name": name,
        "generateName": f"{owner.name}-",
        "namespace": owner.namespace,
        "labels": {
            **(made_from.labels or {}),
            **identity.identity_labels(name, ordinal),
            POD_REVISION_LABEL: revision,
        },
        "ownerReferences": owned_by(stateful_set, STATEFUL_SETS),
    }
    if made_from.annotations:
        metadata["annotations"] = made_from.annotations
    if made_from.finalizers:
        metadata["finalizers"] = made_from.finalizers
    spec: JSON = msgspec.json.decode(template.spec)
    spec["hostname"] = name
    spec.pop("subdomain", None)  # the template's subdomain never counts, as upstream
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    if claims := claim_volumes(stateful_set, ordinal):
        spec["volumes"] = _with_claims(spec.get("volumes") or [], claims)
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return msgspec.json.encode(body)


def claim_volumes(stateful_set: StatefulSet, ordinal: int) -> list[JSON]:
    """Return the volumes of a pod for its claims, with the names of the templates."""
    names = [
        template.metadata.name for template in identity.claim_templates(stateful_set)
    ]
    return [
        {
            "name": name,
            "persistentVolumeClaim": {
                "claimName": identity.claim_name(stateful_set, name, ordinal)
            },
        }
        for name in names
    ]


def _with_claims(volumes: list[JSON], claims: list[JSON]) -> list[JSON]:
    claimed = {each["name"] for each in claims}
    return [*claims, *(each for each in volumes if each.get("name") not in claimed)]
