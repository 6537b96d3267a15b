"""Explains persistent volume claims that have no volume."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core import claims
from controller_manager.api.core.v1 import PODS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.json_objects import object_at, objects_at
from controller_manager.api.quantity import QuantityError, parse_quantity
from controller_manager.api.storage.v1 import STORAGE_CLASSES, WAIT_FOR_FIRST_CONSUMER
from controller_manager.controllers.storage.volumebinder.binding import is_available
from controller_manager.controllers.storage.volumebinder.matching import fits, mismatch

from .cause import Cause, Item, Reference, State, text_at, worst_first
from .view import View, events_of

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
UNSCHEDULABLE: Final = "Unschedulable"
"""The reason in the condition PodScheduled of a pod that fits no node."""

_PATIENCE: Final = timedelta(seconds=30)
"""The time in which a provisioner makes a volume."""


async def explain_claims_of_pod(view: View, pod: Item) -> tuple[Cause, ...]:
    """Return the causes for which claims of a pod have no volume."""
    found: list[Cause] = []
    for field, name in _claims_of(pod):
        claim = await view.find(claims.CLAIMS, pod.namespace, name)
        if claim is not None:
            found += await explain_claim(view, claim, has_pod=True)
        elif await view.is_missing(claims.CLAIMS, pod.namespace, name):
            found.append(_missing(pod, field, name))
    return worst_first(found)


def _claims_of(pod: Item) -> Iterator[tuple[str, str]]:
    """Yield the field and the name of each claim that a pod mounts."""
    for volume in objects_at(pod.spec, "volumes"):
        field = f"spec.volumes[{text_at(volume, 'name')}]"
        if "ephemeral" in volume:
            yield field, f"{pod.name}-{text_at(volume, 'name')}"
        elif name := text_at(object_at(volume, "persistentVolumeClaim"), "claimName"):
            yield field, name


def _missing(pod: Item, field: str, name: str) -> Cause:
    return pod.cause(
        "ClaimMissing",
        f"the claim {name} does not exist",
        field,
        pod.created_at,
        remedy="create the claim, or correct its name in the pod",
    )


async def explain_claim(
    view: View, item: Item, *, has_pod: bool = False
) -> tuple[Cause, ...]:
    """Return the causes for which a claim is not bound; none for a bound one.

    `has_pod` says that a pod is known that waits for the claim.
    """
    claim = item.typed(claims.PersistentVolumeClaim)
    if claim.status.phase == claims.BOUND:
        return _resized(item, claim)
    if claim.status.phase == claims.LOST:
        return (_lost(item, claim),)
    if claim.spec.volume_name:
        return (await _named_volume(view, item, claim),)
    name = claims.storage_class_of(claim)
    if not name:
        return (await _without_class(view, item, claim),)
    storage_class = await view.find(STORAGE_CLASSES, "", name)
    if storage_class is None:
        if await view.is_missing(STORAGE_CLASSES, "", name):
            return (await _class_missing(view, item, claim, name),)
        return (_waits(item),)
    cause = await _of_class(view, item, claim, storage_class, has_pod=has_pod)
    return (cause,) if cause else ()


def _unbound(item: Item, what: str, state: State, **more: str) -> Cause:
    given = {"code": "ClaimPending", "field": "status.phase", **more}
    return Cause(
        state=state,
        what=what,
        object=item.reference,
        since=item.created_at,
        **given,  # type: ignore[arg-type]
    )


def _resized(item: Item, claim: claims.PersistentVolumeClaim) -> tuple[Cause, ...]:
    """Return the cause for a bound claim whose volume is smaller than it asks for."""
    wanted = claims.requested_storage(claim)
    present = object_at(item.status, "capacity").get("storage")
    try:
        is_small = present and parse_quantity(wanted) > parse_quantity(present)
    except QuantityError:
        return ()
    if not wanted or not is_small:
        return ()
    failed = [
        each
        for each in item.conditions()
        if text_at(each, "type").endswith("ResizeError")
        and each.get("status") == "True"
    ]
    step = str(object_at(item.status, "allocatedResourceStatuses").get("storage", ""))
    is_stuck = bool(failed) or step.endswith("Infeasible")
    why = text_at(failed[0], "message").rstrip(".") if failed else step
    what = f"the volume has {present}, and the claim asks for {wanted}"
    return (
        item.cause(
            "ClaimResizing",
            f"{what}: {why}" if why else what,
            "status.capacity[storage]",
            text_at(failed[0], "lastTransitionTime") if failed else "",
            remedy="ask for a size that the storage can give" if is_stuck else "",
            state=State.STUCK if is_stuck else State.PROGRESSING,
        ),
    )


def _lost(item: Item, claim: claims.PersistentVolumeClaim) -> Cause:
    return _unbound(
        item,
        f"the volume {claim.spec.volume_name}, with the data of the claim, is gone",
        State.STUCK,
        code="VolumeLost",
        remedy="restore the volume from a backup, and create the claim again",
    )


async def _named_volume(
    view: View, item: Item, claim: claims.PersistentVolumeClaim
) -> Cause:
    """Return the cause for a claim that names its volume."""
    name = claim.spec.volume_name
    volume = await view.find(PERSISTENT_VOLUMES, "", name)
    if volume is None and not await view.is_missing(PERSISTENT_VOLUMES, "", name):
        return _waits(item)
    if volume is None:
        return _unbound(
            item,
            f"the claim names the volume {name}, which does not exist",
            State.STUCK,
            code="NoVolume",
            field="spec.volumeName",
            remedy="create the volume, or leave out spec.volumeName",
        )
    why = mismatch(volume.typed(PersistentVolume), claim)
    if not why:
        reference = object_at(volume.spec, "claimRef")
        holder = f"{text_at(reference, 'namespace')}/{text_at(reference, 'name')}"
        if reference and holder != f"{item.namespace}/{item.name}":
            why = f"it is bound to the claim {holder}"
    if not why:
        return _unbound(item, f"the volume {name} is being bound", State.PROGRESSING)
    return _unbound(
        item,
        f"the claim names the volume {name}, which it cannot have: {why}",
        State.STUCK,
        code="VolumeMismatch",
        field="spec.volumeName",
        remedy="create the claim again as the volume is, or name another volume",
    )


async def _without_class(
    view: View, item: Item, claim: claims.PersistentVolumeClaim
) -> Cause:
    """Return the cause for a claim that only an existing volume can satisfy."""
    lacking = _unbound(
        item,
        "the claim has no storage class, and no volume without a class fits it",
        State.STUCK,
        code="NoStorageClass",
        field="spec.storageClassName",
        remedy="name a storage class in a new claim, mark one as the default, or "
        "create a volume",
    )
    return await _unless_bound(view, item, claim, lacking)


async def _class_missing(
    view: View, item: Item, claim: claims.PersistentVolumeClaim, name: str
) -> Cause:
    classes = sorted(each.name for each in await view.list(STORAGE_CLASSES))
    known = f"there is: {', '.join(classes)}" if classes else "there is none"
    lacking = _unbound(
        item,
        f"the storage class {name} does not exist; {known}",
        State.STUCK,
        code="StorageClassMissing",
        field="spec.storageClassName",
        remedy="create the storage class, or a claim with another one",
    )
    return await _unless_bound(view, item, claim, lacking)


async def _of_class(
    view: View,
    item: Item,
    claim: claims.PersistentVolumeClaim,
    storage_class: Item,
    *,
    has_pod: bool,
) -> Cause | None:
    """Return the cause for a claim whose storage class exists.

    `None` for a claim that only waits for its pod: it is no cause of the pod's trouble.
    """
    json = storage_class.json
    waits = json.get("volumeBindingMode") == WAIT_FOR_FIRST_CONSUMER
    provisioner = text_at(json, "provisioner")
    if waits and not item.annotations.get(_SELECTED_NODE):
        if not has_pod:
            return await _first_consumer(view, item, storage_class.reference)
        if provisioner != NO_PROVISIONER or await _has_volume(view, claim):
            return None
    if provisioner == NO_PROVISIONER:
        return await _no_volume(view, item, claim, storage_class)
    return await _provisioning(view, item, provisioner)


async def _first_consumer(view: View, item: Item, reference: Reference) -> Cause:
    """Return the cause for a claim that gets a volume when a pod uses it."""
    pods = await view.list(PODS, item.namespace)
    users = [
        each
        for each in pods
        if item.name in (name for _, name in _claims_of(each)) and not each.deleted_at
    ]
    if users:
        who, remedy = f"the pod {users[0].name}, which uses it, to be scheduled", ""
        state = State.PROGRESSING
        scheduled = users[0].condition("PodScheduled") or {}
        is_late = view.age(users[0].created_at) > _PATIENCE
        if is_late or scheduled.get("reason") == UNSCHEDULABLE:
            state = State.STUCK
            remedy = (
                "see why the pod has no node: controller-manager explain "
                f"pod/{users[0].name} -n {item.namespace}"
            )
    elif not view.is_whole(PODS, item.namespace):
        who, state, remedy = "a pod that uses it", State.STUCK, ""
    else:
        who, state = "a pod that uses it, and there is none", State.STUCK
        remedy = "create a pod that uses the claim, or leave the claim as it is"
    return replace(
        _unbound(
            item,
            f"the storage class {reference.name} waits for {who}",
            state,
            code="WaitForFirstConsumer",
            field="spec.storageClassName",
        ),
        remedy=remedy,
    )


async def _no_volume(
    view: View, item: Item, claim: claims.PersistentVolumeClaim, storage_class: Item
) -> Cause:
    """Return the cause for a claim of a class without a provisioner."""
    size = claims.requested_storage(claim) or "some storage"
    modes = ", ".join(claim.spec.access_modes or ())
    lacking = _unbound(
        item,
        f"the storage class {storage_class.name} has no provisioner, and no "
        f"available volume has {size} with {modes}",
        State.STUCK,
        code="NoVolume",
        field="spec",
        remedy="create a volume that fits the claim",
    )
    return await _unless_bound(view, item, claim, lacking)


async def _unless_bound(
    view: View, item: Item, claim: claims.PersistentVolumeClaim, lacking: Cause
) -> Cause:
    """Return a cause that holds only if no volume fits the claim."""
    if await _has_volume(view, claim):
        return _unbound(item, "a volume is being bound to the claim", State.PROGRESSING)
    return lacking if view.is_whole(PERSISTENT_VOLUMES) else _waits(item)


def _waits(item: Item) -> Cause:
    """Return the cause for a claim if the objects that it needs cannot be read."""
    return _unbound(item, "the claim waits for a volume", State.STUCK)


async def _provisioning(view: View, item: Item, provisioner: str) -> Cause:
    """Return the cause for a claim whose volume a provisioner must make."""
    failed = await events_of(view, item, ("ProvisioningFailed",))
    if failed:
        return _unbound(
            item,
            f"the provisioner {provisioner} failed: {failed[0].message}",
            State.STUCK,
            code="ProvisioningFailed",
            remedy="correct the problem that the provisioner names; it tries again",
        )
    if view.age(item.created_at) < _PATIENCE:
        return _unbound(
            item, f"the provisioner {provisioner} makes a volume", State.PROGRESSING
        )
    return _unbound(
        item,
        f"the provisioner {provisioner} has not made a volume",
        State.STUCK,
        code="NoProvisioner",
        field="spec.storageClassName",
        remedy=f"see that the driver {provisioner} is installed and runs",
    )


async def _has_volume(view: View, claim: claims.PersistentVolumeClaim) -> bool:
    """Tell whether the binder would find a volume for a claim."""
    volumes: Sequence[Item] = await view.list(PERSISTENT_VOLUMES)
    typed = (each.typed(PersistentVolume) for each in volumes)
    return any(is_available(each) and fits(each, claim) for each in typed)
