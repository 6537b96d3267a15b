"""Decides the next action for a claim (syncClaim of pv_controller.go): pure functions.

A binding takes four writes: the volume refers to the claim, the volume is Bound, the
claim names the volume, the claim is Bound. Each decision is the first write that
is missing. So an interrupted binding continues where it stopped.
"""

from controller_manager.api.core import claims
from controller_manager.api.core.claims import (
    BETA_STORAGE_CLASS,
    PersistentVolumeClaim,
    storage_class_of,
)
from controller_manager.api.meta import annotations_of, key_of
from controller_manager.api.storage.v1 import WAIT_FOR_FIRST_CONSUMER
from controller_manager.runtime.outcome import SyncError

from .actions import STATUS, Action, Event, Finished, ReadVolume, Write, normal, warning
from .annotations import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from .binding import bind, claim_without_volume, class_given_to, is_reserved_for
from .matching import mismatch
from .migration import migrated_claim
from .provision import provision
from .view import ClusterView


def decide_claim(
    claim: PersistentVolumeClaim, view: ClusterView, *, is_current: bool = False
) -> Action:
    """Return the next action for a claim (syncClaim).

    With `is_current`, the cached volume of the claim was compared with the stored one.
    Raises SyncError for an invalid claim, class or volume.
    """
    if (migrated := migrated_claim(claim)) is not None:
        return Write(migrated)
    if BIND_COMPLETED in annotations_of(claim.metadata):
        return _sync_bound_claim(claim, view, is_current=is_current)
    if claim.spec.volume_name:
        return _sync_claim_with_volume_name(claim, view)
    return _sync_unbound_claim(claim, view)


def _sync_unbound_claim(claim: PersistentVolumeClaim, view: ClusterView) -> Action:
    """Return the next action for a claim that accepts any volume."""
    is_delayed = waits_for_consumer(claim, view)
    volume = view.best_volume(claim, only_reserved=is_delayed)
    if volume is not None:
        return bind(claim, volume)
    if not has_class(claim) and (default := view.default_class()) is not None:
        given = class_given_to(claim, default.metadata.name)
        return Write(given, gives_default_class=True)
    if is_delayed and SELECTED_NODE not in annotations_of(claim.metadata):
        return _pending(claim, _waiting(claim, view))
    if storage_class_of(claim):
        return provision(claim, view)
    message = (
        "no persistent volumes available for this claim and no storage class is set"
    )
    return _pending(claim, normal(claim, "FailedBinding", message))


def has_class(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim names a class; "" is the name of a class, too."""
    return (
        claim.spec.storage_class_name is not None
        or BETA_STORAGE_CLASS in annotations_of(claim.metadata)
    )


def waits_for_consumer(claim: PersistentVolumeClaim, view: ClusterView) -> bool:
    """Tell whether the scheduler chooses the volume (IsDelayBindingMode).

    Raises SyncError for a class without a binding mode.
    """
    name = storage_class_of(claim)
    storage_class = view.storage_class(name) if name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        msg = f'VolumeBindingMode not set for StorageClass "{name}"'
        raise SyncError(msg)
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _waiting(claim: PersistentVolumeClaim, view: ClusterView) -> Event:
    """Return the event about the pods that a claim with late binding waits for."""
    pods = sorted(view.unscheduled_pods(claim))
    if not pods:
        message = "waiting for first consumer to be created before binding"
        return normal(claim, "WaitForFirstConsumer", message)
    word = "pod" if len(pods) == 1 else "pods"
    message = f"waiting for {word} {','.join(pods)} to be scheduled"
    return normal(claim, "WaitForPodScheduled", message)


def _pending(claim: PersistentVolumeClaim, *events: Event) -> Action:
    """Return the action for a claim that waits."""
    changed = claim_without_volume(claim, claims.PENDING)
    if changed is not None:
        return Write(changed, STATUS)
    return Finished(events, requeue=True)


def _sync_claim_with_volume_name(
    claim: PersistentVolumeClaim, view: ClusterView
) -> Action:
    """Return the next action for a claim that asks for a volume by name."""
    volume = view.volume(claim.spec.volume_name)
    if volume is None:
        return _pending(claim)
    name = volume.metadata.name
    reference = volume.spec.claim_ref
    if reference is None:
        if problem := mismatch(volume, claim):
            message = f'Cannot bind to requested volume "{name}": {problem}'
            return _pending(claim, warning(claim, "VolumeMismatch", message))
        return bind(claim, volume)
    if is_reserved_for(volume, claim):
        return bind(claim, volume)
    message = f'volume "{name}" already bound to a different claim.'
    event = warning(claim, "FailedBinding", message)
    if BOUND_BY_CONTROLLER not in annotations_of(claim.metadata):
        return _pending(claim, event)
    problem = (
        f'invalid binding of claim "{key_of(claim)}" to volume "{name}": volume '
        f'already claimed by "{reference.namespace}/{reference.name}"'
    )
    return Finished((event,), requeue=True, error=problem)


def _sync_bound_claim(
    claim: PersistentVolumeClaim, view: ClusterView, *, is_current: bool
) -> Action:
    """Return the next action for a claim that was bound once (syncBoundClaim).

    An old cache, for instance of a new leader, makes no claim Lost.
    """
    name = claim.spec.volume_name
    if not name:
        return _lost(
            claim,
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is "
            "lost!",
        )
    volume = view.volume(name)
    reference = None if volume is None else volume.spec.claim_ref
    if volume and (reference is None or reference.uid == claim.metadata.uid):
        return bind(claim, volume)
    if not is_current and claim.status.phase != claims.LOST:
        return ReadVolume(name)
    if volume is None:
        return _lost(
            claim,
            "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        )
    return _lost(
        claim,
        "ClaimMisbound",
        "Two claims are bound to the same volume, this one is bound incorrectly",
    )


def _lost(claim: PersistentVolumeClaim, reason: str, message: str) -> Action:
    """Return the action for a claim that has no volume any more."""
    changed = claim_without_volume(claim, claims.LOST)
    if changed is None or claim.status.phase == claims.LOST:
        return Finished(requeue=True)
    return Write(changed, STATUS, event=warning(claim, reason, message))
