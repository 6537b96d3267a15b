"""The clock of the API server."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest

from controller_manager.client.rest.request import parse_date

_NOON = datetime(2026, 11, 28, 12, 37, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("date", "time"),
    [
        ("Sat, 28 Nov 2026 12:37:05 GMT", _NOON),
        ("Thu, 01 Jan 1970 00:00:00 GMT", datetime(1970, 1, 1, tzinfo=UTC)),
        ("Sat, 28 Nov 2026 12:37:05 +0000", _NOON),
        ("Saturday, 28-Nov-26 12:37:05 GMT", _NOON),
    ],
)
def test_a_date_header_is_parsed(date: str, time: datetime) -> None:
    assert parse_date(date) == time == parsedate_to_datetime(date)
    assert parse_date(date).utcoffset() == timedelta(0)


@pytest.mark.parametrize("date", ["yesterday", "Sat, 99 Nov 2026 12:37:05 GMT"])
def test_an_invalid_date_header_is_refused(date: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_date(date)
