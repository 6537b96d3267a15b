"""Deliberate bugs of the cleaner of bootstrap tokens."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.core import secrets
from controller_manager.api.core.secrets import Secret, decoded
from controller_manager.api.scalars import parse_time
from tests.simulation.planted import Bug

_time_left = secrets.time_left


def _without_timer(secret: Secret, now: datetime) -> timedelta | None:
    """Look at a token only when it changes."""
    left = _time_left(secret, now)
    return None if left else left


def _kept_if_unreadable(secret: Secret, now: datetime) -> timedelta | None:
    try:
        parse_time(decoded(secret, "expiration"))
    except ValueError:
        return None
    return _time_left(secret, now)


def _a_minute(secret: Secret, now: datetime) -> timedelta | None:
    """Delete a minute before the end."""
    left = _time_left(secret, now)
    return left if left is None else max(left - timedelta(minutes=1), timedelta())


BUGS: Final[Mapping[str, Bug]] = {
    "set no timer for a bootstrap token": Bug(
        0, secrets, "time_left", _without_timer, "bootstrap-token-that-expires"
    ),
    "keep bootstrap tokens that never end": Bug(
        0,
        secrets,
        "time_left",
        _kept_if_unreadable,
        "bootstrap-token-without-a-readable-end",
    ),
    "delete bootstrap tokens too early": Bug(
        0, secrets, "time_left", _a_minute, "bootstrap-token-that-is-prolonged"
    ),
}
