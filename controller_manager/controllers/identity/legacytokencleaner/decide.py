"""Decides whether a legacy token stays (evaluateSATokens).

A token that was not used for the clean-up period gets a label that marks it as invalid,
and API servers refuse it. An administrator may remove the label, and the token is valid
again. A token is deleted if the label stays for another period. Dates are days in UTC,
as in the labels.
"""

from datetime import UTC, date, datetime, timedelta
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from controller_manager.api.core.secrets import ACCOUNT_NAME, ACCOUNT_UID, Secret
from controller_manager.api.core.v1 import ServiceAccount
from controller_manager.api.meta import annotations_of, is_deleting, labels_of
from controller_manager.api.times import parse_day, parse_time

LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"


class Decision(Enum):
    """The decision about a token."""

    KEEP = auto()
    INVALIDATE = auto()
    DELETE = auto()


class Limits(Struct, frozen=True):
    """The time since which a token is new, and the day since which it is used."""

    created: datetime
    used: date

    @classmethod
    def of(cls, now: datetime, period: float) -> "Limits":
        """Return the limits for a clean-up period in seconds."""
        limit = now.astimezone(UTC) - timedelta(seconds=period)
        return cls(limit, limit.date())


def tracked_long_enough(since: date, now: datetime, period: float) -> bool:
    """Tell whether the use of tokens has been tracked for the whole period.

    The first day does not count, since only a part of it was tracked.
    """
    midnight = datetime(since.year, since.month, since.day, tzinfo=UTC)
    return now - midnight >= timedelta(days=1, seconds=period)


def is_unused(secret: Secret, limits: Limits) -> bool:
    """Tell whether a token is old, and was not used in the period.

    A token without the label was not used since tracking began. A token with a
    malformed label stays.
    """
    created = secret.metadata.creation_timestamp
    if is_deleting(secret) or not created or parse_time(created) >= limits.created:
        return False
    label = labels_of(secret).get(LAST_USED)
    if label is None:
        return True
    last_used = parse_day(label)
    return last_used is not None and last_used < limits.used


def is_generated_for(secret: Secret, account: ServiceAccount | None) -> bool:
    """Tell whether the account lists the token; users have created the others."""
    if account is None:
        return False
    annotations = annotations_of(secret.metadata)
    uid = annotations.get(ACCOUNT_UID, "")
    return (
        annotations.get(ACCOUNT_NAME) == account.metadata.name
        and uid in ("", account.metadata.uid)
        and any(each.name == secret.metadata.name for each in account.secrets or ())
    )


def decide_unused(secret: Secret, limits: Limits) -> Decision:
    """Return the decision about an unused, generated token."""
    invalid_since = parse_day(labels_of(secret).get(INVALID_SINCE, ""))
    if invalid_since is None:
        return Decision.INVALIDATE
    return Decision.DELETE if invalid_since < limits.used else Decision.KEEP
