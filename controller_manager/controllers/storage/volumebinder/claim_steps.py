"""What is to be done for a claim (syncClaim of pv_controller.go): pure functions.

A binding takes four writes: the volume refers to the claim, the volume is Bound, the
claim names the volume, the claim is Bound. Each decision is the next write that is
missing. So a binding that was interrupted anywhere goes on there.
"""

from controller_manager.api.core import claims, volumes
from controller_manager.api.core.claims import (
    BETA_STORAGE_CLASS,
    PersistentVolumeClaim,
    storage_class_of,
)
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import annotations_of, key_of
from controller_manager.api.storage.v1 import WAIT_FOR_FIRST_CONSUMER
from controller_manager.controllers.storage.volumebinder.annotations import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
)
from controller_manager.controllers.storage.volumebinder.changes import (
    claim_bound_to,
    claim_of_volume,
    claim_without_volume,
    class_given_to,
    is_reserved_for,
    volume_bound_to,
    volume_in_phase,
)
from controller_manager.controllers.storage.volumebinder.cluster import Cluster
from controller_manager.controllers.storage.volumebinder.matching import mismatch
from controller_manager.controllers.storage.volumebinder.migration import migrated_claim
from controller_manager.controllers.storage.volumebinder.provisioning import provision
from controller_manager.controllers.storage.volumebinder.steps import (
    SETTLED,
    STATUS,
    Notice,
    ReadVolume,
    Rest,
    Step,
    Write,
    normal,
    warning,
)
from controller_manager.runtime.outcome import SyncError


def decide_claim(
    claim: PersistentVolumeClaim, cluster: Cluster, *, is_certain: bool = False
) -> Step:
    """Return the next step for a claim (syncClaim).

    With `is_certain`, the API server has the volume of the claim as the cache shows it.
    Raises SyncError for a claim, a class or a volume that cannot be used.
    """
    if (migrated := migrated_claim(claim)) is not None:
        return Write(migrated)
    if BIND_COMPLETED in annotations_of(claim.metadata):
        return _of_bound(claim, cluster, is_certain=is_certain)
    if claim.spec.volume_name:
        return _of_asking(claim, cluster)
    return _of_unbound(claim, cluster)


def _of_unbound(claim: PersistentVolumeClaim, cluster: Cluster) -> Step:
    """Return the next step for a claim that takes any volume."""
    is_delayed = waits_for_consumer(claim, cluster)
    volume = cluster.best_volume(claim, only_reserved=is_delayed)
    if volume is not None:
        return bind(claim, volume)
    if not has_class(claim) and (default := cluster.default_class()) is not None:
        given = class_given_to(claim, default.metadata.name)
        return Write(given, gives_default_class=True)
    if is_delayed and SELECTED_NODE not in annotations_of(claim.metadata):
        return _pending(claim, _waiting(claim, cluster))
    if storage_class_of(claim):
        return provision(claim, cluster)
    message = (
        "no persistent volumes available for this claim and no storage class is set"
    )
    return _pending(claim, normal(claim, "FailedBinding", message))


def has_class(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim names a class; "" is one, too."""
    return (
        claim.spec.storage_class_name is not None
        or BETA_STORAGE_CLASS in annotations_of(claim.metadata)
    )


def waits_for_consumer(claim: PersistentVolumeClaim, cluster: Cluster) -> bool:
    """Tell whether the scheduler chooses the volume (IsDelayBindingMode).

    Raises SyncError for a class without a binding mode.
    """
    name = storage_class_of(claim)
    storage_class = cluster.storage_class(name) if name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        msg = f'VolumeBindingMode not set for StorageClass "{name}"'
        raise SyncError(msg)
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _waiting(claim: PersistentVolumeClaim, cluster: Cluster) -> Notice:
    """Return the event about what a claim waits for that the scheduler binds."""
    pods = sorted(cluster.unscheduled_pods(claim))
    if not pods:
        message = "waiting for first consumer to be created before binding"
        return normal(claim, "WaitForFirstConsumer", message)
    word = "pod" if len(pods) == 1 else "pods"
    message = f"waiting for {word} {','.join(pods)} to be scheduled"
    return normal(claim, "WaitForPodScheduled", message)


def _pending(claim: PersistentVolumeClaim, *notices: Notice) -> Step:
    """Return the step for a claim that waits."""
    changed = claim_without_volume(claim, claims.PENDING)
    if changed is not None:
        return Write(changed, STATUS)
    return Rest(notices, again=True)


def _of_asking(claim: PersistentVolumeClaim, cluster: Cluster) -> Step:
    """Return the next step for a claim that asks for a volume by name."""
    volume = cluster.volume(claim.spec.volume_name)
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
    notice = warning(claim, "FailedBinding", message)
    if BOUND_BY_CONTROLLER not in annotations_of(claim.metadata):
        return _pending(claim, notice)
    problem = (
        f'invalid binding of claim "{key_of(claim)}" to volume "{name}": volume '
        f'already claimed by "{reference.namespace}/{reference.name}"'
    )
    return Rest((notice,), again=True, error=problem)


def _of_bound(
    claim: PersistentVolumeClaim, cluster: Cluster, *, is_certain: bool
) -> Step:
    """Return the next step for a claim that was bound once (syncBoundClaim).

    No claim is Lost because of an old cache, that of a new leader for instance.
    """
    name = claim.spec.volume_name
    if not name:
        return _lost(
            claim,
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is "
            "lost!",
        )
    volume = cluster.volume(name)
    reference = None if volume is None else volume.spec.claim_ref
    if volume and (reference is None or reference.uid == claim.metadata.uid):
        return bind(claim, volume)
    if not is_certain and claim.status.phase != claims.LOST:
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


def _lost(claim: PersistentVolumeClaim, reason: str, message: str) -> Step:
    """Return the step for a claim that has no volume any more."""
    changed = claim_without_volume(claim, claims.LOST)
    if changed is None or claim.status.phase == claims.LOST:
        return Rest(again=True)
    return Write(changed, STATUS, notice=warning(claim, reason, message))


def bind(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Step:
    """Return the next write that binds a claim and a volume to each other (bind).

    The volume goes first. Its version protects it: if another manager has changed it,
    the write is refused, and the claim is untouched.
    """
    name = volume.metadata.name
    if (bound := volume_bound_to(volume, claim)) is not None:
        return Write(bound, volume=name)
    if (in_phase := volume_in_phase(volume, volumes.BOUND)) is not None:
        return Write(in_phase, STATUS, volume=name)
    if (naming := claim_bound_to(claim, volume)) is not None:
        return Write(naming, volume=name)
    if (complete := claim_of_volume(claim, volume)) is not None:
        return Write(complete, STATUS, volume=name)
    return SETTLED
