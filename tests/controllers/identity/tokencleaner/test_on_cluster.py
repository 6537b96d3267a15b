"""Bootstrap tokens are deleted when they expire; the recordings say which."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from controller_manager.api.core.secrets import (
    SECRETS,
    Secret,
    encoded,
    time_left,
    token_id_of_name,
)
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.client import PatchType
from tests.clusters import make_config
from tests.controllers.hands import Before, Hands
from tests.controllers.identity.tokencleaner.builders import add_token, bootstrap_token
from tests.controllers.responses import refusal

pytestmark = pytest.mark.looptime

CONFIG = make_config(controllers=("tokencleaner",))


async def _names(cluster: Hands) -> list[str]:
    page = await cluster.client.list_page(SECRETS)
    return sorted(
        each.metadata.name.removeprefix("bootstrap-token-") for each in page.items
    )


def _in(cluster: Hands, seconds: float) -> str:
    return format_time(cluster.clock.now() + timedelta(seconds=seconds))


async def test_a_token_goes_when_it_expires(cluster: Hands) -> None:
    add_token(cluster, bootstrap_token("never1"))
    add_token(cluster, bootstrap_token("later1", _in(cluster, 3600)))
    add_token(cluster, bootstrap_token("soon01", _in(cluster, 5)))
    add_token(cluster, bootstrap_token("past01", _in(cluster, -5)))
    add_token(cluster, bootstrap_token("odd001", "tomorrow"))
    opaque = bootstrap_token("opaque", _in(cluster, -5))
    add_token(cluster, {**opaque, "type": "Opaque"})
    add_token(cluster, bootstrap_token("mine01", _in(cluster, -5)), "default")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        assert await _names(cluster) == [
            *("later1", "mine01", "never1", "opaque", "soon01")
        ]
        await asyncio.sleep(5)
        assert await _names(cluster) == ["later1", "mine01", "never1", "opaque"]
        await cluster.client.patch(
            SECRETS,
            "kube-system",
            "bootstrap-token-later1",
            {"data": {"expiration": encoded("2020-01-01T00:00:00Z")}},
            PatchType.MERGE,
        )
        await asyncio.sleep(1)
        assert await _names(cluster) == ["mine01", "never1", "opaque"]
    assert [each.method for each in recording.writes] == ["DELETE"] * 4


async def test_a_token_that_is_prolonged_stays(cluster: Hands) -> None:
    add_token(cluster, bootstrap_token("later1", _in(cluster, 60)))
    async with cluster.manager(CONFIG):
        await asyncio.sleep(30)
        await cluster.client.patch(
            SECRETS,
            "kube-system",
            "bootstrap-token-later1",
            {"data": {"expiration": encoded(_in(cluster, 600))}},
            PatchType.MERGE,
        )
        await asyncio.sleep(500)
        assert await _names(cluster) == ["later1"]
        await asyncio.sleep(110)
        assert await _names(cluster) == []


async def test_a_conflict_that_no_change_follows_is_tried_again(cluster: Hands) -> None:
    add_token(cluster, bootstrap_token("past01", _in(cluster, -5)))
    once = Before(cluster, "DELETE", "past01", lambda: refusal(409, "Conflict"))
    async with cluster.manager(CONFIG, once):
        await asyncio.sleep(1)
        assert await _names(cluster) == []


async def test_no_timer_is_lost_over_a_restart(cluster: Hands) -> None:
    add_token(cluster, bootstrap_token("soon01", _in(cluster, 20)))
    async with cluster.manager(CONFIG):
        await asyncio.sleep(5)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(14)
        assert await _names(cluster) == ["soon01"]
        await asyncio.sleep(2)
        assert await _names(cluster) == []


async def test_its_role_in_one_namespace_is_enough() -> None:
    cluster = Hands(rbac=True)
    add_token(cluster, bootstrap_token("past01", _in(cluster, -5)))
    settings = make_config(
        controllers=("tokencleaner",), use_service_account_credentials=True
    )
    async with cluster.confined_manager(settings) as recording:
        await asyncio.sleep(1)
        assert await _names(cluster) == []
    assert [each.status for each in recording.writes] == [200]


async def test_a_token_that_is_being_deleted_is_left_alone(cluster: Hands) -> None:
    """It waits for a finalizer; another deletion would change nothing."""
    secret = bootstrap_token("past01", _in(cluster, -5))
    secret["metadata"]["finalizers"] = ["example.com/x"]
    add_token(cluster, secret)
    name = secret["metadata"]["name"]
    await cluster.client.delete(SECRETS, "kube-system", name)
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(60)
    assert recording.writes == []
    assert await _names(cluster) == ["past01"]


NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expiration", "seconds"),
    [
        ("2026-03-20T12:00:05Z", 5),
        ("2026-03-20T13:00:05+01:00", 5),
        ("2026-03-20T12:00:00.5Z", 0.5),
        ("2026-03-20T12:00:00Z", 0),
        ("2020-01-01T00:00:00Z", 0),
        pytest.param("2026-03-20T13:00:00Z", 3600, id="in an hour"),
        pytest.param("2026-03-21T0:00:05Z", 12 * 3600 + 5, id="an hour of one digit"),
        pytest.param("2026-03-20T12:00:01,5Z", 1.5, id="a comma"),
        pytest.param("2026-03-20T12:00:00+24:00", 0, id="an offset of a day"),
        pytest.param("2026-03-20T12:00:00-24:60", 25 * 3600, id="the largest offset"),
        pytest.param("0000-01-01T00:00:00Z", 0, id="the year 0"),
        pytest.param("10000-01-01T00:00:00Z", 0, id="a year of five digits"),
        pytest.param("2026-03-21t12:00:00z", 0, id="small letters"),
        pytest.param("2026-03-21T12:00:60Z", 0, id="a leap second"),
        pytest.param("tomorrow", 0, id="no time"),
        pytest.param("2026-03-21", 0, id="only a day"),
        pytest.param("2026-03-21T12:00:00", 0, id="no time zone"),
        pytest.param("2026-02-30T12:00:00Z", 0, id="no such day"),
        pytest.param("20260321T120000Z", 0, id="another form of ISO 8601"),
    ],
)
def test_a_time_that_cannot_be_read_has_passed(expiration: str, seconds: float) -> None:
    """As upstream: only RFC 3339 is a time."""
    secret = Secret(data={"expiration": encoded(expiration)})
    assert time_left(secret, NOW) == timedelta(seconds=seconds)


@pytest.mark.parametrize("expiration", ["/w==", "MjA5OS0wMS0wMVQwMDowMDowMFr/"])
def test_an_expiration_that_is_no_text_has_passed(expiration: str) -> None:
    """Its bytes are no UTF-8; the token must not be valid for ever."""
    assert time_left(Secret(data={"expiration": expiration}), NOW) == timedelta()


def test_a_token_of_the_last_year_is_valid_until_then() -> None:
    secret = Secret(data={"expiration": encoded("9999-12-31T23:59:59-24:00")})
    left = time_left(secret, NOW)
    assert left == datetime.max.replace(tzinfo=UTC) - NOW


def test_a_token_without_an_expiration_is_valid_for_ever() -> None:
    assert time_left(Secret(), NOW) is None
    assert time_left(Secret(data={"expiration": ""}), NOW) is None


@pytest.mark.parametrize(
    ("name", "token_id"),
    [
        ("bootstrap-token-abc123", "abc123"),
        ("bootstrap-token-abc12", ""),
        ("bootstrap-token-ABC123", ""),
        ("other-abc123", ""),
        ("x-bootstrap-token-abc123", ""),
    ],
)
def test_the_name_of_a_secret_has_the_id_of_its_token(name: str, token_id: str) -> None:
    assert token_id_of_name(name) == token_id
