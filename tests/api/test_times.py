"""Times are read as Go reads them: a table of texts."""

from datetime import UTC, date, datetime, timedelta

import pytest

from controller_manager.api import scalars


def _at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


ACCEPTED = [
    ("2026-01-02T03:04:05Z", _at(2026, 1, 2, 3, 4, 5)),
    ("2026-01-02T3:04:05Z", _at(2026, 1, 2, 3, 4, 5)),
    ("2099-01-01T5:00:00Z", _at(2099, 1, 1, 5)),
    ("2026-01-02T3:04:05.5+01:00", _at(2026, 1, 2, 2, 4, 5, 500_000)),
    ("2026-01-02T03:04:05.678901Z", _at(2026, 1, 2, 3, 4, 5, 678_901)),
    ("2026-01-02T03:04:05,25Z", _at(2026, 1, 2, 3, 4, 5, 250_000)),
    ("2026-01-02T03:04:05.9999999Z", _at(2026, 1, 2, 3, 4, 5, 999_999)),
    (f"2026-01-02T03:04:05.{'1' * 100}Z", _at(2026, 1, 2, 3, 4, 5, 111_111)),
    ("2026-01-02T03:04:05+00:00", _at(2026, 1, 2, 3, 4, 5)),
    ("2026-01-02T03:04:05-00:00", _at(2026, 1, 2, 3, 4, 5)),
    ("2026-01-02T03:04:05+05:30", _at(2026, 1, 1, 21, 34, 5)),
    ("2026-01-02T03:04:05-23:59", _at(2026, 1, 3, 3, 3, 5)),
    ("2026-01-02T03:04:05+24:00", _at(2026, 1, 1, 3, 4, 5)),
    ("2026-01-02T03:04:05-24:60", _at(2026, 1, 3, 4, 4, 5)),
    ("2024-02-29T00:00:00Z", _at(2024, 2, 29)),
    ("0001-01-01T00:00:00Z", _at(1, 1, 1)),
    ("0000-12-31T23:04:05-02:00", _at(1, 1, 1, 1, 4, 5)),
    ("9999-12-31T23:59:59Z", _at(9999, 12, 31, 23, 59, 59)),
]
"""Texts that Go takes, and the times that they state.

Python keeps microseconds, Go nanoseconds; both cut off further digits.
"""

FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)

BEYOND = [
    ("0000-01-01T00:00:00Z", FIRST),
    ("0000-02-29T00:00:00Z", FIRST),
    ("0001-01-01T00:00:00+00:01", FIRST),
    ("9999-12-31T23:59:59-00:01", LAST),
]
"""Texts that Go takes, and that state a time which Python cannot hold."""

REFUSED = [
    "",
    "now",
    "0",
    "2026-01-02",
    "2026-01-02T03:04:05",
    "2026-01-02T03:04Z",
    "2026-01-02T03Z",
    "2026-01-02 03:04:05Z",
    "2026-01-02t03:04:05Z",
    "2026-01-02T03:04:05z",
    " 2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05Z ",
    "2026-01-02T03:04:05Z\n",
    "2026-01-02T03:04:05 Z",
    "2026-01-02T 3:04:05Z",
    "2026-01-02T03:04:05.Z",
    "2026-01-02T03:04:05,Z",
    "2026-01-02T03:04:05;5Z",
    "2026-01-02T03:04:60Z",
    "2026-01-02T03:60:05Z",
    "2026-01-02T24:00:00Z",
    "2026-01-02T003:04:05Z",
    "2026-01-02T:04:05Z",
    "2026-01-02T03:4:05Z",
    "2026-01-02T03:04:5Z",
    "2026-1-02T03:04:05Z",
    "2026-01-2T03:04:05Z",
    "2026-00-02T03:04:05Z",
    "2026-13-02T03:04:05Z",
    "2026-01-00T03:04:05Z",
    "2026-01-32T03:04:05Z",
    "2026-02-29T03:04:05Z",
    "0000-02-30T00:00:00Z",
    "1900-02-29T03:04:05Z",
    "20260102T030405Z",
    "2026-W01-5T03:04:05Z",
    "2026-002T03:04:05Z",
    "226-01-02T03:04:05Z",
    "+2026-01-02T03:04:05Z",
    "-001-01-02T03:04:05Z",
    "10000-01-01T00:00:00Z",
    "2026-01-02T03:04:05+01",
    "2026-01-02T03:04:05+0100",
    "2026-01-02T03:04:05+1:00",
    "2026-01-02T03:04:05+25:00",
    "2026-01-02T03:04:05+01:61",
    "2026-01-02T03:04:05+01:00:00",
    "2026-01-02T03:04:05\u221201:00",
    "2026-01-02T03:04:05UTC",
    "2026-01-02T03:04:05Z+01:00",
    "\u0662026-01-02T03:04:05Z",
    "2026-01-02T03:04:0\u0665Z",
]
"""Texts that Go refuses."""


@pytest.mark.parametrize(("text", "instant"), ACCEPTED)
def test_a_text_that_go_takes_states_its_time(text: str, instant: datetime) -> None:
    assert scalars.parse_rfc3339(text) == instant
    assert scalars.parse_rfc3339(text).tzinfo is UTC


@pytest.mark.parametrize(("text", "nearest"), BEYOND)
def test_a_time_beyond_pythons_is_the_nearest(text: str, nearest: datetime) -> None:
    """Go takes the text, so it is no malformed time."""
    assert scalars.parse_rfc3339(text) == nearest


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_that_go_refuses_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is no time of RFC 3339") as caught:
        scalars.parse_rfc3339(text)
    assert repr(text) in str(caught.value)


def test_a_long_text_that_is_no_time_is_not_repeated_in_full() -> None:
    """It may come from a user, and it ends in a log."""
    with pytest.raises(ValueError, match="is no time of RFC 3339") as caught:
        scalars.parse_rfc3339("x" * 100_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-01-02T03:04:05Z", _at(2026, 1, 2, 3, 4, 5)),
        ("2026-01-02T03:04:05.678901Z", _at(2026, 1, 2, 3, 4, 5, 678_901)),
        ("0001-01-01T00:00:00Z", scalars.EARLIEST),
        ("9999-12-31T23:59:59Z", scalars.LATEST),
        ("10000-01-01T00:59:59Z", scalars.LATEST),
        ("292277026596-12-04T15:30:07.000001Z", scalars.LATEST),
        ("-0001-12-31T00:00:00Z", scalars.EARLIEST),
        ("0000-12-31T00:00:00Z", scalars.EARLIEST),
    ],
)
def test_a_time_leaves_room_for_a_duration(text: str, instant: datetime) -> None:
    """An API server writes years beyond 9999, too: Go adds an offset to a time.

    A duration of Go is 292 years at most, so it can be added to each of them.
    """
    found = scalars.parse_time(text)
    assert found == instant
    century = timedelta(days=292 * 366)
    assert found - century < found < found + century


@pytest.mark.parametrize(
    "text", ["", "now", "2026-01-02T03:04:60Z", "10000-01-01", "-1-01-01T00:00:00Z"]
)
def test_an_object_may_have_a_text_that_is_no_time(text: str) -> None:
    """A server that is not written in Go may have sent it."""
    with pytest.raises(ValueError, match="is no time of RFC 3339"):
        scalars.parse_time(text)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-03-20", date(2026, 3, 20)),
        ("2024-02-29", date(2024, 2, 29)),
        ("0000-02-29", date.min),
        ("9999-12-31", date.max),
        ("2026-02-29", None),
        ("0000-02-30", None),
        ("2026-3-20", None),
        ("20260320", None),
        ("2026-W12-5", None),
        ("2026-03-20T00:00:00Z", None),
        ("2026-03-20\n", None),
        ("2026-03-2\u0660", None),
        ("", None),
    ],
)
def test_a_day_is_read_as_go_reads_one(text: str, day: date | None) -> None:
    """Year 0 is a year for Go; the first day of Python stands for it."""
    assert scalars.parse_day(text) == day


@pytest.mark.parametrize(
    ("seconds", "instant"),
    [
        (0, _at(2026, 1, 1)),
        (90, _at(2026, 1, 1, 0, 1, 30)),
        (-1, _at(2025, 12, 31, 23, 59, 59)),
        (2**63 - 1, LAST),
        (10**12, LAST),
        (-(2**63), FIRST),
    ],
)
def test_too_late_a_sum_is_the_latest_time(seconds: int, instant: datetime) -> None:
    """Users may ask for a grace period of any number of 64 bits."""
    assert scalars.seconds_after(_at(2026, 1, 1), seconds) == instant


def test_times_are_written_as_the_api_does() -> None:
    instant = _at(2026, 1, 2, 3, 4, 5, 678_901)
    assert scalars.format_time(instant) == "2026-01-02T03:04:05Z"
    assert scalars.format_micro_time(instant) == "2026-01-02T03:04:05.678901Z"
    assert scalars.parse_time(scalars.format_micro_time(instant)) == instant
