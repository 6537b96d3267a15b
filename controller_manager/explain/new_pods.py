"""Explains the pods of the current template that a rollout waits for."""

from controller_manager.controllers.apps.deployment.scaling import active, max_surge

from .cause import Cause, symptom
from .items import Item
from .replicas import explain_replica_set
from .rollout_state import Read
from .view import View


async def pods_of_new(view: View, read: Read) -> tuple[Cause, ...]:
    """Return the causes for which the new replica set lacks available pods."""
    new = read.rollout.new
    assert new is not None  # noqa: S101 - the callers have looked
    item = read.items[new.metadata.uid]
    causes = await explain_replica_set(view, item)
    old = active(read.rollout.old)
    surge = max_surge(read.deployment)
    if old and surge and any(_is_full_quota(each) for each in causes):
        return tuple(_surge_blocked(item, each, surge) for each in causes)
    return causes


def _is_full_quota(cause: Cause) -> bool:
    return cause.code == "QuotaFull" or any(map(_is_full_quota, cause.because))


def _surge_blocked(item: Item, cause: Cause, surge: int) -> Cause:
    """Return a cause with the remark that the old pods use the quota."""
    if not _is_full_quota(cause):
        return cause
    blocked = Cause(
        code="SurgeBlocked",
        state=cause.state,
        what=f"the old pods use the quota that the new ones need (maxSurge {surge})",
        object=item.reference,
        field="spec.replicas",
        remedy="raise the quota, or let the rollout delete first: maxSurge 0 and "
        "maxUnavailable 1",
    )
    return symptom(blocked, [cause])
