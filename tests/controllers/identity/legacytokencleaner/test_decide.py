"""The decision about a token, as a table of days."""

from datetime import UTC, date, datetime

import pytest

from controller_manager.api.core.secrets import ACCOUNT_NAME, ACCOUNT_UID, Secret
from controller_manager.api.core.v1 import ObjectReference, ServiceAccount
from controller_manager.api.meta import ObjectMeta
from controller_manager.controllers.identity.legacytokencleaner.controller import (
    INVALID_SINCE,
    LAST_USED,
    Decision,
    Limits,
    decide_unused,
    is_generated_for,
    is_unused,
    tracked_long_enough,
)

DAY = 86_400.0
NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
LIMITS = Limits.of(NOW, 10 * DAY)
OLD = "2026-03-10T11:59:59Z"


def _secret(created: str = OLD, **labels: str) -> Secret:
    names = {"used": LAST_USED, "invalid": INVALID_SINCE}
    return Secret(
        metadata=ObjectMeta(
            name="tok",
            creation_timestamp=created,
            labels={names[key]: value for key, value in labels.items()},
            annotations={ACCOUNT_NAME: "robot"},
        )
    )


@pytest.mark.parametrize(
    ("secret", "unused"),
    [
        pytest.param(_secret(), True, id="old and never used"),
        pytest.param(_secret("2026-03-10T12:00:00Z"), False, id="as old as the period"),
        pytest.param(_secret("2026-03-19T00:00:00Z"), False, id="new"),
        pytest.param(_secret(""), False, id="of no known age"),
        pytest.param(_secret(used="2026-03-09"), True, id="used before"),
        pytest.param(_secret(used="2026-03-10"), False, id="used on the day"),
        pytest.param(_secret(used="2026-03-20"), False, id="used today"),
        pytest.param(_secret(used="yesterday"), False, id="malformed"),
        pytest.param(_secret(used=""), False, id="empty"),
    ],
)
def test_a_token_is_unused_if_it_is_old_and_was_not_used_in_the_period(
    secret: Secret, *, unused: bool
) -> None:
    """A label that cannot be read says nothing: the token stays."""
    assert is_unused(secret, LIMITS) is unused


@pytest.mark.parametrize(
    ("invalid", "decision"),
    [
        ("", Decision.INVALIDATE),
        ("soon", Decision.INVALIDATE),
        ("2026-03-20", Decision.KEEP),
        ("2026-03-10", Decision.KEEP),
        ("2026-03-09", Decision.DELETE),
    ],
)
def test_an_unused_token_is_marked_and_deleted_a_period_later(
    invalid: str, decision: Decision
) -> None:
    """A mark that cannot be read is written again."""
    assert decide_unused(_secret(invalid=invalid), LIMITS) is decision


def test_a_token_without_labels_is_marked() -> None:
    assert decide_unused(Secret(), LIMITS) is Decision.INVALIDATE


@pytest.mark.parametrize(
    ("since", "now", "enough"),
    [
        ("2026-03-09", NOW, True),
        ("2026-03-10", NOW, False),
        ("2026-03-10", datetime(2026, 3, 20, 23, 59, 59, tzinfo=UTC), False),
        ("2026-03-10", datetime(2026, 3, 21, tzinfo=UTC), True),
    ],
)
def test_tracking_counts_from_the_day_after_it_began(
    since: str, now: datetime, *, enough: bool
) -> None:
    """That day was tracked in part."""
    assert tracked_long_enough(date.fromisoformat(since), now, 10 * DAY) is enough


@pytest.mark.parametrize(
    ("listed", "account", "uid", "generated"),
    [
        pytest.param("tok", "robot", "U", True, id="listed"),
        pytest.param("other", "robot", "U", False, id="not listed"),
        pytest.param("tok", "robot", "V", False, id="of a predecessor"),
        pytest.param("tok", "ghost", "U", False, id="of another account"),
    ],
)
def test_only_what_an_account_lists_was_generated_for_it(
    listed: str, account: str, uid: str, *, generated: bool
) -> None:
    """Users made the others."""
    found = ServiceAccount(
        metadata=ObjectMeta(name=account, uid=uid),
        secrets=(ObjectReference(name=listed),),
    )
    annotations = {ACCOUNT_NAME: "robot", ACCOUNT_UID: "U"}
    secret = Secret(metadata=ObjectMeta(name="tok", annotations=annotations))
    assert is_generated_for(secret, found) is generated
    assert not is_generated_for(secret, None)
