"""Explains workloads that want no pods."""

from .cause import Cause, State
from .items import Item
from .managed_fields import writers_of


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
