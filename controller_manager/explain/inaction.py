"""Explains objects whose controller does nothing."""

from datetime import timedelta
from typing import Final

from controller_manager.api.coordination.v1 import LEASES, Lease
from controller_manager.api.scalars import parse_time

from .cause import Cause, State
from .items import Item, number_at, text_at
from .managed_fields import last_change
from .view import View

_PATIENCE: Final = timedelta(seconds=20)
"""The time in which a controller observes a change."""

_LEASE: Final = ("kube-system", "kube-controller-manager")


async def explain_inaction(view: View, item: Item) -> Cause | None:
    """Return the cause if no controller has observed the newest spec of an object.

    `None` for a kind without observedGeneration.
    """
    generation = number_at(item.metadata, "generation")
    observed = item.status.get("observedGeneration")
    if not generation or number_at(item.status, "observedGeneration") >= generation:
        return None
    if observed is None and item.status:
        return None
    since = last_change(item) or item.created_at
    if view.age(since) < _PATIENCE:
        return Cause(
            code="NotObserved",
            state=State.PROGRESSING,
            what="the controller has not seen the newest spec yet",
            object=item.reference,
            field="status.observedGeneration",
            since=since,
        )
    return Cause(
        code="ControllerAbsent",
        state=State.STUCK,
        what=f"no controller has seen the newest spec: {await _leader(view)}",
        object=item.reference,
        field="status.observedGeneration",
        since=since,
        remedy="see that kube-controller-manager runs, and runs this controller",
    )


async def explain_no_leader(view: View) -> Cause | None:
    """Return the cause if the lease shows that no controller manager leads.

    `None` if the lease does not exist or cannot be read: then nothing is known.
    """
    namespace, name = _LEASE
    fields = f"metadata.name={name}"
    found = await view.list(LEASES, namespace, fields=fields, is_hint=True)
    for lease in found:
        if lease.name == name and (why := _without_leader(view, lease)):
            return Cause(
                code="ControllerAbsent",
                state=State.STUCK,
                what=f"no controller acts: {why}",
                object=lease.reference,
                field="spec.renewTime",
                since=text_at(lease.spec, "renewTime"),
                remedy="see that kube-controller-manager runs",
            )
    return None


async def _leader(view: View) -> str:
    """Return a sentence about the leader of kube-controller-manager."""
    namespace, name = _LEASE
    lease = await view.find(LEASES, namespace, name)
    if lease is None:
        return "the lease of kube-controller-manager does not show a leader"
    if why := _without_leader(view, lease):
        return why
    holder = lease.typed(Lease).spec.holder_identity
    return f"{holder} leads, and may not run this controller"


def _without_leader(view: View, lease: Item) -> str:
    """Return a sentence if a lease shows that there is no leader, empty otherwise."""
    spec = lease.typed(Lease).spec
    if not spec.holder_identity:
        return "the lease of kube-controller-manager has no holder"
    if spec.renew_time is not None:
        seconds = timedelta(seconds=spec.lease_duration_seconds or 0)
        if parse_time(spec.renew_time) + seconds < view.now:
            at = text_at(lease.spec, "renewTime")
            return f"the lease of kube-controller-manager was last renewed at {at}"
    return ""
