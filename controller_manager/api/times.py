"""RFC 3339 times as the API server writes and reads them."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=4096)
def parse_time(text: str) -> datetime:
    """Return the time that `text` states.

    Raises ValueError if it is not RFC 3339. Results are cached, because a rollout
    compares the same few timestamps many times.
    """
    return datetime.fromisoformat(text)


def format_time(instant: datetime) -> str:
    """Return `instant` as text, to the second as metav1.Time."""
    return instant.astimezone(UTC).isoformat(timespec="seconds")[:-6] + "Z"


def format_micro_time(instant: datetime) -> str:
    """Return `instant` as text, to the microsecond as metav1.MicroTime."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
