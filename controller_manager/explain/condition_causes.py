"""A cause that a condition of an object shows."""

from controller_manager.api.json_objects import JSON

from .cause import Cause, State
from .items import Item, text_at


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
