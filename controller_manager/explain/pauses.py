"""Explains rollouts that are paused, and old pods that fail meanwhile."""

from controller_manager.api.workloads import desired_replicas
from controller_manager.controllers.apps.deployment.scaling import active

from .cause import Cause, State, symptom
from .items import Item
from .managed_fields import writers_of
from .new_pods import pods_of_new
from .replicas import explain_replica_set
from .rollout_state import Read, not_available
from .view import View


async def explain_pause(view: View, read: Read) -> Cause:
    """Return the cause for a paused rollout that is not complete."""
    writers = writers_of(read.item, "spec", "paused")
    by = f" by {writers[0].manager}" if writers else ""
    template = "the new template has no pods yet" if _is_outdated(read) else ""
    missing = "pods of the current template are not available"
    cause = Cause(
        code="Paused",
        state=State.STUCK,
        what=f"the rollout was paused{by}: {template or missing}",
        object=read.item.reference,
        field="spec.paused",
        since=writers[0].at if writers else read.item.created_at,
        remedy=f"resume it: kubectl rollout resume {_name(read.item)}",
    )
    if template or read.rollout.new is None:
        return cause
    causes = await pods_of_new(view, read)
    # A paused deployment still replaces its pods: those that fail are a cause of
    # their own, and the pause is none.
    return symptom(not_available(read), causes) if causes else cause


async def old_trouble(view: View, read: Read) -> tuple[Cause, ...]:
    """Return the causes for which old pods fail while a new template is paused.

    They serve until the rollout goes on, and nothing else would tell of them.
    """
    if not _is_outdated(read):
        return ()
    found: list[Cause] = []
    for each in active(read.rollout.old):
        found += await explain_replica_set(view, read.items[each.metadata.uid])
    return tuple(found)


def _is_outdated(read: Read) -> bool:
    new = read.rollout.new
    return new is None or (
        desired_replicas(new) < desired_replicas(read.deployment)
        and bool(active(read.rollout.old))
    )


def _name(item: Item) -> str:
    return f"-n {item.namespace} deployment/{item.name}"
