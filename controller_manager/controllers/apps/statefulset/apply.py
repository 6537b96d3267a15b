"""Carries out the actions of the stateful set controller.

The bodies of a stateful set's new pods.

Upstream: newStatefulSetPod and newVersionedStatefulSetPod of stateful_set_utils.go.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec
from msgspec.structs import replace

from controller_manager.api.apps.v1 import STATEFUL_SETS, StatefulSet, StatefulSetStatus
from controller_manager.api.core.v1 import PODS, Pod, PodTemplateSpec
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import key_of
from controller_manager.api.owners import controller_reference
from controller_manager.api.resource import metadata_of
from controller_manager.client.client import Client, DeleteOptions, PatchType
from controller_manager.client.errors import (
    AlreadyExists,
    APIError,
    Conflict,
    NotFound,
    TransportError,
    is_about,
    is_namespace_terminating,
)
from controller_manager.client.events import EventRecorder
from controller_manager.control.history.names import POD_REVISION_LABEL
from controller_manager.control.history.revisions import History
from controller_manager.control.owner_reads import OwnerReads
from controller_manager.control.slow_start import slow_start
from controller_manager.runtime.outcome import SyncError

from .actions import (
    Action,
    Change,
    ClaimChanges,
    CompleteClaims,
    CorrectOwners,
    CreatePod,
    DeletePod,
    InTurn,
    RefusePod,
    Together,
    UpdatePod,
)
from .claim_control import ClaimControl, ClaimProblem
from .events import StatefulSetEvents
from .expectations import UnseenDeletions
from .identity import claim_name, claim_templates, identity_labels, pod_name
from .revisions import beyond_limit
from .status import is_same
from .view import View


def pod_body(
    stateful_set: StatefulSet, template: PodTemplateSpec, revision: str, ordinal: int
) -> bytes:
    """Return the request body of the pod with an ordinal.

    `revision` is the name of the revision that records `template`.
    """
    name = pod_name(stateful_set, ordinal)
    made_from, owner = template.metadata, stateful_set.metadata
    metadata: JSON = {
        "name": name,
        "generateName": f"{owner.name}-",
        "namespace": owner.namespace,
        "labels": {
            **(made_from.labels or {}),
            **identity_labels(name, ordinal),
            POD_REVISION_LABEL: revision,
        },
        "ownerReferences": [
            controller_reference(
                stateful_set, STATEFUL_SETS.api_version, STATEFUL_SETS.kind
            )
        ],
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
    names = [template.metadata.name for template in claim_templates(stateful_set)]
    return [
        {
            "name": name,
            "persistentVolumeClaim": {
                "claimName": claim_name(stateful_set, name, ordinal)
            },
        }
        for name in names
    ]


def _with_claims(volumes: list[JSON], claims: list[JSON]) -> list[JSON]:
    """Return the claims, then the volumes whose names no claim has."""
    claimed = {each["name"] for each in claims}
    return [*claims, *(each for each in volumes if each.get("name") not in claimed)]


class NameInUse(SyncError):
    """A pod that the set does not control has the name of a wanted pod."""


class StatefulSetApplier:
    """Carries out actions; the view gets their results, a failure included."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        history: History[StatefulSet],
        reads: OwnerReads[StatefulSet],
        deletions: UnseenDeletions,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._history = history
        self._reads = reads
        self._deletions = deletions

    async def apply(self, view: View, action: Action) -> View:
        """Carry out one action, unless an earlier one has failed."""
        view = replace(view, acted=True)
        if view.failure is not None:
            return view
        work = _Work(self._client, self._recorder, self._deletions, view)
        match action:
            case InTurn(changes):
                failure = await work.in_turn(changes)
            case Together(groups):
                failure = await work.together(groups)
            case _:
                assert_never(action)
        replaced = (*view.replaced, *work.replaced)
        return replace(view, replaced=replaced, failure=failure)

    async def report(self, view: View, status: StatefulSetStatus) -> None:
        """Write the status, if it has changed, then delete old revisions."""
        stateful_set = view.stateful_set
        if not is_same(stateful_set.status, status):
            reported = replace(stateful_set, status=status)
            try:
                await self._client.update_for_metadata(
                    STATEFUL_SETS, reported, "status"
                )
            except NotFound as error:
                if not is_about(error, stateful_set.metadata.name):
                    raise
                self._reads.mark_gone(stateful_set)
                return
            except Conflict:
                await self._reads.wait_for_cache(stateful_set)
                raise
        for revision in beyond_limit(stateful_set, view.pods, view.revisions):
            await self._history.delete(revision)


class _Work:
    """The changes of one sync.

    In a namespace that is being deleted no object can be created. This ends the sync,
    too, but is no failure.
    """

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        deletions: UnseenDeletions,
        view: View,
    ) -> None:
        self._client = client
        self._deletions = deletions
        self._view = view
        self._set = view.stateful_set
        self._events = StatefulSetEvents(recorder, view.stateful_set)
        self._claims = ClaimControl(client, view.stateful_set, self._events)
        self.replaced: list[Pod] = []

    async def in_turn(self, changes: Sequence[Change]) -> Exception | None:
        """Make changes one after the other; return the failure that has ended them."""
        try:
            for change in changes:
                await self._make(change)
        except Exception as error:  # noqa: BLE001 - raised after the report
            return None if is_namespace_terminating(error) else error
        return None

    async def together(self, groups: Sequence[Sequence[Change]]) -> Exception | None:
        """Make the changes of the groups at the same time, with a slow start."""
        waiting = iter(groups)

        async def make_next_group() -> None:
            for change in next(waiting):
                await self._make(change)

        _, failure = await slow_start(len(groups), make_next_group)
        if failure is not None and is_namespace_terminating(failure):
            return None
        return failure

    async def _make(self, change: Change) -> None:
        match change:
            case CreatePod():
                await self._create(change)
            case RefusePod(name):
                self._refuse(name)
            case CompleteClaims(pod, claims):
                await self._complete(pod, claims)
            case UpdatePod():
                await self._update(change)
            case CorrectOwners(pod, claims):
                await self._claims.correct_owners(pod, claims)
            case DeletePod():
                await self._delete(change)
            case _:
                assert_never(change)

    def _refuse(self, name: str) -> None:
        error = NameInUse(f'pods "{name}" already exists')
        self._events.pod("Create", name, error)
        raise error

    async def _create(self, change: CreatePod) -> None:
        revisions, namespace = self._view.revisions, self._set.metadata.namespace
        try:
            await self._claims.create(change.name, change.claims)
            template = revisions.template(self._set, change.revision)
            body = pod_body(self._set, template, change.revision, change.ordinal)
            await self._client.create_json(metadata_of(PODS), namespace, body)
        except AlreadyExists:
            # The cache will show the pod, which this set or another owner controls.
            raise
        except (APIError, TransportError, ClaimProblem) as error:
            if not is_namespace_terminating(error):
                self._events.pod("Create", change.name, error)
            raise
        self._claims.report_conflicts(change.claims)
        self._events.pod("Create", change.name)

    async def _complete(self, pod: Pod, claims: ClaimChanges) -> None:
        name = pod.metadata.name
        await self._claims.create(name, claims)
        try:
            await self._claims.correct_owners(pod, claims)
        except ClaimProblem as error:
            self._events.pod("Update", name, error)
            raise

    async def _update(self, change: UpdatePod) -> None:
        pod = change.pod
        name = pod.metadata.name
        try:
            await self._claims.correct_owners(pod, change.claims)
            if change.restores_identity:
                await self._patch(change)
        except (APIError, TransportError, ClaimProblem) as error:
            self._events.pod("Update", name, error)
            raise
        self._events.pod("Update", name)

    async def _patch(self, change: UpdatePod) -> None:
        """Patch the labels of a pod that show its identity."""
        metadata = change.pod.metadata
        labels = identity_labels(metadata.name, change.ordinal)
        patch = {"metadata": {"uid": metadata.uid, "labels": labels}}
        await self._client.patch(
            metadata_of(PODS),
            metadata.namespace,
            metadata.name,
            patch,
            PatchType.STRATEGIC,
        )

    async def _delete(self, change: DeletePod) -> None:
        """Delete exactly this pod; a pod that is gone already is no error."""
        pod = change.pod
        metadata = pod.metadata
        self._deletions.sent(key_of(self._set), pod)
        try:
            await self._client.delete(
                PODS,
                metadata.namespace,
                metadata.name,
                DeleteOptions(uid=metadata.uid),
            )
        except (APIError, TransportError) as error:
            if not _is_gone(error, pod):
                self._deletions.failed(key_of(self._set), pod)
                if not isinstance(error, Conflict):  # another pod has the name
                    self._events.pod("Delete", metadata.name, error)
                raise
        else:
            self._events.pod("Delete", metadata.name)
        if change.for_update:
            self.replaced.append(pod)


def _is_gone(error: Exception, pod: Pod) -> bool:
    return isinstance(error, NotFound) and is_about(error, pod.metadata.name)
