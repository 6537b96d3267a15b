"""Explains jobs and cron jobs that are suspended."""

from .cause import Cause, State
from .items import Item, text_at
from .managed_fields import writers_of

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
