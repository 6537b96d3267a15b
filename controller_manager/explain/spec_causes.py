"""A cause that a field of an object's spec shows for as long as the object exists."""

from .cause import Cause, State
from .items import Item


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
