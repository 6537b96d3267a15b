"""Bootstrap tokens are deleted when they expire; the recordings say which."""

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
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.identity.tokencleaner.builders import add_token, bootstrap_token
from tests.controllers.scenarios import Scenario, scenarios


def config() -> Config:
    return make_config(
        controllers=("tokencleaner",), use_service_account_credentials=True
    )


class Tokens(Hands):
    def token(
        self,
        name: str,
        expires: str = "",
        type: str = "",  # noqa: A002 (the field's name)
        at: str = "kube-system",
        finalizer: str = "",
    ) -> None:
        """Add a token that expires in so many seconds, or at a malformed time."""
        secret = bootstrap_token(name, self._time(expires))
        if finalizer:
            secret["metadata"]["finalizers"] = [finalizer]
        add_token(self, {**secret, **({"type": type} if type else {})}, at)

    def prolong(self, name: str, seconds: str) -> None:
        data = {"expiration": encoded(self._time(seconds))}
        self.edit(SECRETS, f"bootstrap-token-{name}", "kube-system", data=data)

    def _time(self, text: str) -> str:
        if not text.lstrip("-").isdigit():
            return text
        return format_time(self.clock.now() + timedelta(seconds=int(text)))

    def tokens(self) -> list[str]:
        return [each.removeprefix("bootstrap-token-") for each in self.names(SECRETS)]


@pytest.mark.looptime
@scenarios("identity/tokencleaner")
async def test_tokens_expire(scenario: Scenario) -> None:
    await scenario.play(Tokens, config)


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
