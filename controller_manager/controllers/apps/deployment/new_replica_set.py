"""The new replica set: its creation, its revision, and the decisions after it."""

from datetime import datetime
from typing import Any, Final

import msgspec

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    POD_TEMPLATE_HASH,
    Deployment,
    ReplicaSet,
    ReplicaSetSpec,
)
from controller_manager.api.conditions import find_condition
from controller_manager.api.meta import ObjectMeta, annotations_of
from controller_manager.api.owners import controller_reference, is_controlled_by
from controller_manager.api.selectors import LabelSelector
from controller_manager.control.decision import Decision, Step
from controller_manager.control.mutations import Mutation

from .actions import (
    Action,
    CountCollision,
    CreateReplicaSet,
    DeploymentDecision,
    DeploymentStep,
    PatchReplicaSet,
    RecordEvent,
    TryReplicaSet,
    UseExistingReplicaSet,
    WriteFailure,
    about_deployment,
    scaling_event,
    warning,
)
from .pod_template import equal_ignoring_hash, template_hash
from .progress import REPLICA_SET_CREATE_ERROR, REPLICA_SET_MUTATED, has_deadline
from .report import draft_of, report_sizes
from .revisions import changed_annotations, max_revision, synced_annotations
from .scaling import new_replica_set_size, size_annotations_of
from .status import PROGRESSING, Draft, condition, is_same, without_condition
from .view import CreationFailed, Mutated, NameTaken, Unchanged, View

_MAX_NAME_LENGTH: Final = 253


LABELS: Final = "metadata.labels"
"""The field whose change makes a deployment release its new replica set."""


def new_replica_set(
    deployment: Deployment, replicas: int, annotations: dict[str, str]
) -> ReplicaSet:
    """Return the replica set of the deployment's current template."""
    template = deployment.spec.template
    digest = template_hash(template, deployment.status.collision_count)
    labels = {**(template.metadata.labels or {}), POD_TEMPLATE_HASH: digest}
    selector = deployment.spec.selector or LabelSelector()
    owner = controller_reference(deployment, DEPLOYMENTS.api_version, DEPLOYMENTS.kind)
    stem = deployment.metadata.name[: _MAX_NAME_LENGTH - len(digest) - 1]
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{stem}-{digest}",
            namespace=deployment.metadata.namespace,
            labels=labels,
            annotations=annotations,
            owner_references=(owner,),
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            min_ready_seconds=deployment.spec.min_ready_seconds,
            selector=msgspec.structs.replace(
                selector,
                match_labels={
                    **(selector.match_labels or {}),
                    POD_TEMPLATE_HASH: digest,
                },
            ),
            template=msgspec.structs.replace(
                template,
                metadata=msgspec.structs.replace(template.metadata, labels=labels),
            ),
        ),
    )


def sync_revision(view: View) -> DeploymentStep | None:
    """Return the step that updates the revision of the new replica set.

    `None` if there is no new replica set yet, if nothing in it must change, or if
    this sync has patched it already (getNewReplicaSet).
    """
    deployment, new = view.deployment, view.rollout.new
    if new is None or new.metadata.uid in view.patched:
        return None
    current = annotations_of(new.metadata)
    revision = max_revision(view.rollout.old) + 1
    wanted = synced_annotations(deployment, current, revision)
    patch: dict[str, Any] = {}
    if changed := changed_annotations(current, wanted):
        patch["metadata"] = {"annotations": changed}
    min_ready_seconds = deployment.spec.min_ready_seconds
    if new.spec.min_ready_seconds != min_ready_seconds:
        patch["spec"] = {"minReadySeconds": min_ready_seconds}
    if not patch:
        return None
    return Step((PatchReplicaSet(new, patch, wanted="current annotations"),))


def ensure_new(view: View, now: datetime) -> DeploymentStep | DeploymentDecision | None:
    """Return the step or decision that the new replica set needs first.

    `None` if the new replica set exists, or if it cannot be created because its
    namespace is being deleted, which is not an error.
    """
    if (held := hold_mutated(view, now)) is not None:
        return held
    match view.creation:
        case None | Unchanged() if view.rollout.new is None:
            return Step((_create(view),))
        case NameTaken() as taken:
            return _name_taken(view.deployment, taken)
        case CreationFailed() as failed:
            return _creation_failed(view, failed, now)
        case _:
            return None


def _create(view: View) -> CreateReplicaSet:
    deployment, old = view.deployment, view.rollout.old
    size = new_replica_set_size(deployment, old, 0)
    annotations = {
        **synced_annotations(deployment, {}, max_revision(old) + 1),
        **size_annotations_of(deployment),
    }
    candidate = new_replica_set(deployment, size, annotations)
    return CreateReplicaSet(deployment, candidate, scaling_event(candidate, 0, size))


def hold_mutated(
    view: View, now: datetime
) -> DeploymentStep | DeploymentDecision | None:
    """Return what to do while admission changes new replica sets, `None` for nothing.

    A dry run tells whether it still does. Without any replica set there are no pods, so
    one is created at the time of that dry run, unless the deployment would release it.
    """
    match view.creation, view.mutation:
        case Mutated(mutation=found), _:
            event = RecordEvent(warning(REPLICA_SET_MUTATED, found.message))
            return _mutated(view, found, now, event)
        case None, Mutation() as known if view.rollout.new is None:
            if known.seconds > 0:
                return _mutated(view, known, now)
            if not view.rollout.old and not known.field.startswith(LABELS):
                return None
            return Step((_try(view, known),))
    return None


def reported_mutation(deployment: Deployment) -> Mutation | None:
    """Return the mutation that an earlier process has reported; a dry run is due."""
    for each in deployment.status.conditions or ():
        if (each.type, each.reason) == (PROGRESSING, REPLICA_SET_MUTATED):
            return Mutation("", "spec.template", 0.0)
    return None


def _try(view: View, known: Mutation) -> TryReplicaSet:
    """Return the dry run of a creation, whose name cannot be in use."""
    candidate = _create(view).replica_set
    unnamed = msgspec.structs.replace(
        candidate.metadata, name="", generate_name=f"{view.deployment.metadata.name}-"
    )
    return TryReplicaSet(known, msgspec.structs.replace(candidate, metadata=unnamed))


def _mutated(
    view: View, mutation: Mutation, now: datetime, *events: Action
) -> DeploymentDecision:
    """Report that admission changes new replica sets; wait for the next attempt."""
    draft = draft_of(view, now)
    if has_deadline(view.deployment):
        draft = _with_mutation(draft, mutation.message, now)
    waiting_for = f"a new replica set with its template: {mutation.message}"
    return msgspec.structs.replace(
        report_sizes(view, draft, now, actions=events),
        reasons=(about_deployment(view.deployment, waiting_for),),
        requeue_after=mutation.seconds,
    )


def _with_mutation(draft: Draft, message: str, now: datetime) -> Draft:
    """Return the draft with the condition; another field replaces the message."""
    failure = condition(PROGRESSING, "False", REPLICA_SET_MUTATED, message, now)
    old = find_condition(draft.conditions, PROGRESSING)
    if old is None or old.reason != REPLICA_SET_MUTATED or old.message == message:
        return draft.with_condition(failure)
    changed = msgspec.structs.replace(
        failure, last_transition_time=old.last_transition_time
    )
    others = without_condition(draft.conditions, PROGRESSING)
    return msgspec.structs.replace(draft, conditions=(*others, changed))


def _name_taken(
    deployment: Deployment, taken: NameTaken
) -> DeploymentStep | DeploymentDecision:
    """Use the existing replica set if it is suitable, else count a collision.

    A replica set is suitable if the deployment controls it and it has the current
    template. The collision count changes the name of the next attempt.
    """
    existing = taken.existing
    if is_controlled_by(existing, deployment) and equal_ignoring_hash(
        existing.spec.template, deployment.spec.template
    ):
        return Step((UseExistingReplicaSet(existing),))
    collisions = (deployment.status.collision_count or 0) + 1
    status = msgspec.structs.replace(deployment.status, collision_count=collisions)
    count = CountCollision(msgspec.structs.replace(deployment, status=status))
    waiting_for = "a free name for the new replica set"
    return Decision(
        (count,),
        reasons=(about_deployment(deployment, waiting_for),),
        retry=taken.error,
    )


def _creation_failed(
    view: View, failed: CreationFailed, now: datetime
) -> DeploymentDecision:
    deployment = view.deployment
    message = f'Failed to create new replica set "{failed.name}": {failed.error}'
    actions: list[Action] = [RecordEvent(warning(REPLICA_SET_CREATE_ERROR, message))]
    if has_deadline(deployment):
        failure = condition(
            PROGRESSING, "False", REPLICA_SET_CREATE_ERROR, message, now
        )
        draft = draft_of(view, now).with_condition(failure)
        status = msgspec.structs.replace(deployment.status, conditions=draft.conditions)
        if not is_same(deployment.status, status):
            actions.append(WriteFailure(draft.deployment_with(status)))
    waiting_for = f"the new replica set to be created: {failed.error}"
    return Decision(
        tuple(actions),
        reasons=(about_deployment(deployment, waiting_for),),
        retry=failed.error,
    )
