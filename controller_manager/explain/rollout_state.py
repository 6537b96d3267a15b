"""The state of a rollout: its objects, and the symptom that it is not complete."""

from msgspec import Struct

from controller_manager.api.apps.v1 import Deployment, desired_replicas
from controller_manager.api.meta import find_condition
from controller_manager.controllers.apps.deployment.rollout import Rollout
from controller_manager.controllers.apps.deployment.scaling import (
    active,
    is_rolling_update,
    max_surge,
    max_unavailable,
)
from controller_manager.controllers.apps.deployment.status import (
    PROGRESS_DEADLINE_EXCEEDED,
    PROGRESSING,
)

from .cause import Cause, State
from .items import Item


class Read(Struct, frozen=True):
    """A deployment, its replica sets by uid, and its rollout."""

    item: Item
    deployment: Deployment
    items: dict[str, Item]
    rollout: Rollout


def not_available(read: Read) -> Cause:
    """Return the symptom of a rollout that is not complete, with its bounds."""
    deployment, rollout = read.deployment, read.rollout
    wanted = desired_replicas(deployment)
    new = rollout.new
    available = new.status.available_replicas if new is not None else 0
    what = f"{available} of {wanted} pods of the current template are available"
    field = "status.availableReplicas"
    if old := sum(desired_replicas(each) for each in active(rollout.old)):
        what += f", and {old} of older ones stay"
        if is_rolling_update(deployment):
            surge, missing = max_surge(deployment), max_unavailable(deployment)
            what += f" (at most {surge} more and {missing} fewer than {wanted} pods)"
            field = "spec.strategy.rollingUpdate"
    return Cause(
        code="RolloutWaits",
        state=State.PROGRESSING,
        what=what,
        object=read.item.reference,
        field=field,
        since=progress_since(read),
    )


def progress_since(read: Read) -> str:
    """Return the time since which the rollout has made no progress."""
    condition = find_condition(read.deployment.status.conditions, PROGRESSING)
    if condition is not None and condition.last_update_time:
        if condition.reason != PROGRESS_DEADLINE_EXCEEDED:
            return condition.last_update_time
        if read.rollout.new is not None:
            return read.rollout.new.metadata.creation_timestamp or ""
    return read.item.created_at
