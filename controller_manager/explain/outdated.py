"""Explains pods with an old template that the update strategy leaves alone."""

from .cause import Cause, State, counted
from .items import Item


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
