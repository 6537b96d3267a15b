"""Unused tokens are marked, then deleted; each run looks at all of them once a day."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pytest

from controller_manager.api.core.secrets import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    SECRETS,
    SERVICE_ACCOUNT_TOKEN,
    Secret,
)
from controller_manager.api.core.v1 import (
    CONFIG_MAPS,
    SERVICE_ACCOUNTS,
    ObjectReference,
    ServiceAccount,
)
from controller_manager.api.meta import ObjectMeta
from controller_manager.controllers.identity.legacytokencleaner import (
    TRACKING,
    LegacyTokenCleanerOptions,
)
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
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.rows import rows
from tests.controllers.scenarios import Scenario, scenarios

NAME: Final = "legacy-serviceaccount-token-cleaner-controller"
DAY: Final = 86_400.0
PERIOD: Final = 2 * DAY
"""The clean-up period of these tests: days of virtual time take seconds."""


def config() -> Config:
    made = make_config(controllers=(NAME,), use_service_account_credentials=True)
    options = LegacyTokenCleanerOptions(clean_up_period=PERIOD)
    return replace(made, controllers={LegacyTokenCleanerOptions: options})


class Tokens(Hands):
    """A cluster with accounts and tokens, whose use is tracked."""

    def day(self, days: float = 0) -> str:
        """Return the day that is so many days after now."""
        return (self.clock.now() + timedelta(days=days)).date().isoformat()

    def track(self, since: str = "2025-01-01") -> None:
        self.put(CONFIG_MAPS, TRACKING, "kube-system", data={"since": since})

    def track_since_period(self) -> None:
        """Track the use since a day less than a period."""
        self.track(self.day(1 - PERIOD / DAY))

    def token_used_in(self, name: str, days: str) -> None:
        self.token(name, **{"last-used": self.day(int(days))})

    def mark_used(self, name: str) -> None:
        """Write today's use in place of all labels."""
        found = dict.fromkeys(self.labels()[name])
        self.edit(SECRETS, name, metadata={"labels": {**found, LAST_USED: self.day()}})

    def token(self, name: str, **labels: str) -> None:
        self.put(SERVICE_ACCOUNTS, name, secrets=[{"name": name}])
        self.unlisted(name, name, **labels)

    def unlisted(self, name: str, account: str, **labels: str) -> None:
        metadata = {
            "annotations": {ACCOUNT_NAME: account},
            "labels": {f"kubernetes.io/legacy-token-{k}": v for k, v in labels.items()},
        }
        self.put(SECRETS, name, metadata=metadata, type=SERVICE_ACCOUNT_TOKEN)

    def labels(self) -> dict[str, Any]:
        found = [each["metadata"] for each in self.all(SECRETS)]
        return {each["name"]: each.get("labels", {}) for each in found}


@pytest.mark.looptime
@scenarios("identity/legacytokencleaner")
async def test_unused_tokens_go(scenario: Scenario) -> None:
    await scenario.play(Tokens, config)


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


@rows(
    "secret unused",
    {
        "old and never used": (_secret(), True),
        "as old as the period": (_secret("2026-03-10T12:00:00Z"), False),
        "new": (_secret("2026-03-19T00:00:00Z"), False),
        "of no known age": (_secret(""), False),
        "used before": (_secret(used="2026-03-09"), True),
        "used on the day": (_secret(used="2026-03-10"), False),
        "used today": (_secret(used="2026-03-20"), False),
        "malformed": (_secret(used="yesterday"), False),
        "empty": (_secret(used=""), False),
    },
)
def test_old_tokens_without_use_are_unused(secret: Secret, *, unused: bool) -> None:
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
def test_a_mark_is_followed_by_deletion(invalid: str, decision: Decision) -> None:
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
def test_tracking_counts_next_day(since: str, now: datetime, *, enough: bool) -> None:
    assert tracked_long_enough(date.fromisoformat(since), now, 10 * DAY) is enough


@rows(
    "listed account uid generated",
    {
        "listed": ("tok", "robot", "U", True),
        "not listed": ("other", "robot", "U", False),
        "of a predecessor": ("tok", "robot", "V", False),
        "of another account": ("tok", "ghost", "U", False),
    },
)
def test_only_what_an_account_lists_was_generated_for_it(
    listed: str, account: str, uid: str, *, generated: bool
) -> None:
    found = ServiceAccount(
        metadata=ObjectMeta(name=account, uid=uid),
        secrets=(ObjectReference(name=listed),),
    )
    annotations = {ACCOUNT_NAME: "robot", ACCOUNT_UID: "U"}
    secret = Secret(metadata=ObjectMeta(name="tok", annotations=annotations))
    assert is_generated_for(secret, found) is generated
    assert not is_generated_for(secret, None)
