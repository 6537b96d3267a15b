"""Unused tokens are marked, then deleted; each run looks at all of them once a day."""

import asyncio
import json
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
    PODS,
    SERVICE_ACCOUNTS,
    ObjectReference,
    ServiceAccount,
)
from controller_manager.api.json_objects import JSON
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
from tests.clusters import Write, make_config
from tests.controllers.hands import Before, Hands
from tests.controllers.responses import refusal
from tests.controllers.rows import rows

pytestmark = pytest.mark.looptime


NAME: Final = "legacy-serviceaccount-token-cleaner-controller"
DAY: Final = 86_400.0
PERIOD: Final = 2 * DAY
"""The clean-up period of these tests: days of virtual time take seconds."""


def with_period(config: Config, seconds: float = PERIOD) -> Config:
    options = LegacyTokenCleanerOptions(clean_up_period=seconds)
    controllers = {**config.controllers, LegacyTokenCleanerOptions: options}
    return replace(config, controllers=controllers)


def config(*more: str, **generic: Any) -> Config:
    return with_period(make_config(controllers=(NAME, *more), **generic))


class Tokens(Hands):
    """A cluster with accounts and tokens, whose use is tracked."""

    def day(self, days: float = 0) -> str:
        """Return the day that is so many days after now."""
        return (self.clock.now() + timedelta(days=days)).date().isoformat()

    def track(self, since: str = "2025-01-01") -> None:
        self.put(CONFIG_MAPS, TRACKING, "kube-system", data={"since": since})

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


@pytest.fixture
async def cluster() -> Tokens:
    return Tokens()


async def test_an_unused_token_is_marked_and_then_deleted(cluster: Tokens) -> None:
    cluster.track()
    cluster.token("idle")
    cluster.token("busy", **{"last-used": cluster.day(5)})
    cluster.unlisted("mine", "idle")
    await asyncio.sleep(PERIOD + 1)
    today = cluster.day()
    found = []
    writes: list[Write] = []
    for pause in (0, PERIOD - 1, DAY):
        await asyncio.sleep(pause)
        async with cluster.manager(config()) as recording:
            await asyncio.sleep(1)
            found.append(cluster.labels())
        writes += recording.writes
    marked, kept, left = found
    assert marked["idle"] == {INVALID_SINCE: today}
    assert {*kept} == {"busy", "idle", "mine"}
    assert {*left} == {"busy", "mine"}
    assert left["mine"] == {}
    of_idle = [each for each in writes if each.path.endswith("/idle")]
    assert [each.method for each in of_idle] == ["PATCH", "DELETE"]
    preconditions = json.loads(of_idle[1].body)["preconditions"]
    assert {*preconditions} == {"uid", "resourceVersion"}


async def test_a_conflict_that_no_change_follows_waits_for_no_day(
    cluster: Tokens,
) -> None:
    cluster.track()
    cluster.token("idle")
    await asyncio.sleep(PERIOD + 1)
    once = Before(cluster, "PATCH", "/idle", lambda: refusal(409, "Conflict"))
    async with cluster.manager(config(), once):
        await asyncio.sleep(1)
        assert INVALID_SINCE in cluster.labels()["idle"]


@pytest.mark.slow
async def test_a_token_that_is_used_after_its_mark_stays(cluster: Tokens) -> None:
    cluster.track()
    cluster.token("idle")
    await asyncio.sleep(PERIOD + 1)
    async with cluster.manager(config()):
        await asyncio.sleep(1)
        used = {LAST_USED: cluster.day()}
        marked = dict.fromkeys(cluster.labels()["idle"])
        cluster.edit(SECRETS, "idle", metadata={"labels": {**marked, **used}})
        await asyncio.sleep(PERIOD)
        assert cluster.labels()["idle"] == used


def volume(**source: Any) -> JSON:
    return {"volumes": [{"name": "v", **source}]}


IDLE: Final = {"name": "idle"}
KEY: Final = {"secretKeyRef": {"name": "idle", "key": "token"}}
WHOLE: Final = {"envFrom": [{"secretRef": IDLE}]}


@rows(
    "spec",
    {
        "image pull": {"imagePullSecrets": [IDLE]},
        "volume": volume(secret={"secretName": "idle"}),
        "projected": volume(projected={"sources": [{"secret": IDLE}]}),
        "csi": volume(csi={"driver": "d", "nodePublishSecretRef": IDLE}),
        "scaleIO": volume(scaleIO={"secretRef": IDLE}),
        "one key": {
            "containers": [
                {"name": "c", "image": "i", "env": [{"name": "T", "valueFrom": KEY}]}
            ]
        },
        "all keys": {"initContainers": [{"name": "i", "image": "i", **WHOLE}]},
    },
)
async def test_a_token_that_a_pod_uses_stays(cluster: Tokens, spec: JSON) -> None:
    """Pods are read from the API server, so that no cache has to hold all this."""
    cluster.track()
    cluster.token("idle")
    containers = [{"name": "c", "image": "i"}]
    cluster.put(PODS, "user", spec={"containers": containers, **spec})
    await asyncio.sleep(PERIOD + 1)
    async with cluster.manager(config()) as recording:
        await asyncio.sleep(1)
    assert recording.writes == []


@pytest.mark.parametrize("since", ["", "yesterday", "late"])
async def test_cleaning_waits_for_a_tracked_period(cluster: Tokens, since: str) -> None:
    cluster.token("idle")
    await asyncio.sleep(PERIOD + 1)
    if since:
        cluster.track(cluster.day(1 - PERIOD / DAY) if since == "late" else since)
    async with cluster.manager(config()) as recording:
        await asyncio.sleep(60)
    assert recording.writes == []


@pytest.mark.slow
async def test_its_role_is_enough() -> None:
    cluster = Tokens(rbac=True)
    cluster.track()
    cluster.token("idle")
    await asyncio.sleep(PERIOD + 1)
    settings = config(use_service_account_credentials=True)
    async with cluster.confined_manager(settings) as recording:
        await asyncio.sleep(1)
        assert INVALID_SINCE in cluster.labels()["idle"]
        await asyncio.sleep(PERIOD + DAY)
        assert cluster.labels() == {}
    assert {each.status for each in recording.writes} == {200}


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
