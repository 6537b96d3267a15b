"""The events that a kubelet reports about a container."""

from msgspec import Struct


class Note(Struct, frozen=True):
    """The type, the reason and the message of an event."""

    kind: str
    reason: str
    message: str


def normal(reason: str, message: str) -> Note:
    """Return a note of the type Normal."""
    return Note("Normal", reason, message)


def warning(reason: str, message: str) -> Note:
    """Return a note of the type Warning."""
    return Note("Warning", reason, message)
