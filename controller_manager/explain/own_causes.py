"""Causes that the spec or a condition of an object shows by itself."""

from controller_manager.api.json_objects import JSON

from .cause import Cause, State, counted
from .items import Item, text_at
from .managed_fields import writers_of


def spec_cause(
    item: Item,
    code: str,
    what: str,
    field: str,
    remedy: str,
    state: State = State.STUCK,
) -> Cause:
    """Return the cause that a field of an object shows since the object exists."""
    return Cause(
        code=code,
        state=state,
        what=what,
        object=item.reference,
        field=field,
        since=item.created_at,
        remedy=remedy,
    )


def condition_cause(
    item: Item, condition: JSON, code: str, what: str = "", remedy: str = ""
) -> Cause:
    """Return the cause that a condition shows since it changed last.

    Without a sentence, the cause has the condition's message.
    """
    return Cause(
        code=code,
        state=State.STUCK,
        what=what or message_of(condition),
        object=item.reference,
        field=f"status.conditions[{text_at(condition, 'type')}]",
        since=text_at(condition, "lastTransitionTime"),
        remedy=remedy,
    )


def message_of(condition: JSON) -> str:
    """Return the message of a condition in one line, without a full stop."""
    return " ".join(text_at(condition, "message").split()).rstrip(".")


def scaled_to_zero(item: Item) -> Cause:
    """Return the remark about a workload that wants no pods."""
    writers = writers_of(item, "spec", "replicas")
    by = f", set by {writers[0].manager}" if writers else ""
    name = f"{item.resource.kind.lower()}/{item.name}"
    return Cause(
        code="ScaledToZero",
        state=State.HEALTHY,
        what=f"it wants no pods: replicas is 0{by}",
        object=item.reference,
        field="spec.replicas",
        since=writers[0].at if writers else item.created_at,
        remedy=f"to have pods, scale it: kubectl scale -n {item.namespace} {name} "
        "--replicas=N",
    )


def left_for_deletion(item: Item, old: int) -> Cause:
    """Return the cause for old pods that the strategy OnDelete leaves alone."""
    return Cause(
        code="OnDelete",
        state=State.STUCK,
        what=f"{counted(old)} of the old template: the strategy OnDelete waits until "
        "somebody deletes them",
        object=item.reference,
        field="spec.updateStrategy.type",
        remedy=f"delete them: kubectl delete pod -n {item.namespace} NAME",
    )


_NAMES = {"CronJob": "cron job", "Job": "job"}


def suspended(item: Item, effect: str) -> Cause:
    """Return the cause for a suspended job or cron job, with the effect of it.

    A job has a condition with the time; else the last writer of the field has it.
    """
    kind = item.resource.kind
    writers = writers_of(item, "spec", "suspend")
    by = f" by {writers[0].manager}" if writers else ""
    condition = item.condition("Suspended") or {}
    written = writers[0].at if writers and kind == "CronJob" else ""
    return Cause(
        code="Suspended",
        state=State.STUCK,
        what=f"the {_NAMES[kind]} was suspended{by}, {effect}",
        object=item.reference,
        field="spec.suspend",
        since=text_at(condition, "lastTransitionTime") or written or item.created_at,
        remedy=f"resume it: kubectl patch -n {item.namespace} {kind.lower()}/"
        f"""{item.name} -p '{{"spec": {{"suspend": false}}}}'""",
    )
