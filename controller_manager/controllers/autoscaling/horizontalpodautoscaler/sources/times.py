"""When a metric was measured."""

from datetime import UTC, datetime
from typing import Final

from controller_manager.api.times import parse_time

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def measured_at(timestamp: str | None) -> datetime:
    """Return the time of a metric; one without a time is older than every other."""
    return parse_time(timestamp) if timestamp else _NEVER
