"""What becomes of a legacy token (evaluateSATokens).

A token that was not used for the clean-up period is marked as invalid: API servers
refuse it from then on, and take the mark away if an administrator does. After another
period it is deleted. Dates are days in UTC, as in the labels.
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


class Verdict(Enum):
    """What is done to a token."""

    KEEP = auto()
    INVALIDATE = auto()
    DELETE = auto()


class Limits(Struct, frozen=True):
    """The moment and the day from which on a token counts as new, or as used."""

    created: datetime
    used: date

    @classmethod
    def of(cls, now: datetime, period: float) -> "Limits":
        """Return the limits for a clean-up period in seconds."""
        limit = now.astimezone(UTC) - timedelta(seconds=period)
        return cls(limit, limit.date())


def tracked_long_enough(since: date, now: datetime, period: float) -> bool:
    """Tell whether the use of tokens has been tracked for the whole period.

    The first day does not count: it was tracked in part.
    """
    midnight = datetime(since.year, since.month, since.day, tzinfo=UTC)
    return now - midnight >= timedelta(days=1, seconds=period)


def is_unused(secret: Secret, limits: Limits) -> bool:
    """Tell whether a token is old, and was not used lately.

    A token without the label was not used since tracking began. A malformed label says
    nothing, so the token stays.
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
    """Tell whether a token is listed by its account: others were made by users."""
    if account is None:
        return False
    annotations = annotations_of(secret.metadata)
    uid = annotations.get(ACCOUNT_UID, "")
    return (
        annotations.get(ACCOUNT_NAME) == account.metadata.name
        and uid in ("", account.metadata.uid)
        and any(each.name == secret.metadata.name for each in account.secrets or ())
    )


def verdict_on_unused(secret: Secret, limits: Limits) -> Verdict:
    """Return what becomes of a generated token that nobody uses."""
    invalid_since = parse_day(labels_of(secret).get(INVALID_SINCE, ""))
    if invalid_since is None:
        return Verdict.INVALIDATE
    return Verdict.DELETE if invalid_since < limits.used else Verdict.KEEP
