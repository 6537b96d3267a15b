"""Schedules: runs in a table, in zones, and of any form."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_manager.schedules.cron import CronSchedule
from controller_manager.schedules.every import EverySchedule
from controller_manager.schedules.parsing import parse_in_zone
from controller_manager.schedules.runs import MANY, Runs, runs_between
from controller_manager.schedules.zones import ZoneError, load_zone, local_zone
from tests.schedules import oracle

ROWS = json.loads((Path(__file__).parents[1] / "data" / "cron-next.json").read_text())


SCHEDULES = sorted({row["schedule"] for row in ROWS})


def computed(row: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {
        each: row[each] for each in ("schedule", "timeZone", "from") if each in row
    }
    try:
        schedule = parse_in_zone(row["schedule"], row.get("timeZone"))
    except ValueError as error:
        return {**asked, "next": None, "error": str(error)}
    moment: datetime | None = datetime.fromisoformat(row["from"])
    found: list[str] = []
    while len(found) < 3 and moment is not None:
        moment = schedule.next_after(moment)
        if moment is not None:
            found.append(moment.isoformat().replace("+00:00", "Z"))
    return {**asked, "next": found or None}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_schedule_has_the_results_that_upstream_computed(schedule: str) -> None:
    rows = [row for row in ROWS if row["schedule"] == schedule]
    wanted = [{**row, "next": row["next"] or None} for row in rows]
    assert [computed(row) for row in rows] == wanted


def test_the_table_is_whole() -> None:
    assert len(ROWS) == 561
    assert sum("error" in row for row in ROWS) == 106


LOCAL = timezone(timedelta(hours=3))
WINTER = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("", UTC),
        ("UTC", UTC),
        ("Local", LOCAL),
        ("Europe/Berlin", ZoneInfo("Europe/Berlin")),
        ("Etc/GMT+5", ZoneInfo("Etc/GMT+5")),
    ],
)
def test_a_zone_has_a_name(name: str, zone: object) -> None:
    assert load_zone(name, LOCAL) == zone


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Mars/Phobos", "unknown time zone Mars/Phobos"),
        ("Europe", "unknown time zone Europe"),
        ("Europe/Berlin/", "unknown time zone Europe/Berlin/"),
        ("zone.tab", "unknown time zone zone.tab"),
        ("a\0b", "unknown time zone a\0b"),
        ("\udcff", "unknown time zone \udcff"),
        ("x" * 5000, f"unknown time zone {'x' * 5000}"),
        ("../UTC", "time: invalid location name"),
        ("/etc/localtime", "time: invalid location name"),
        ("\\UTC", "time: invalid location name"),
    ],
)
def test_a_zone_that_does_not_exist_is_refused(name: str, message: str) -> None:
    """The error is always of the same kind, with Go's message."""
    with pytest.raises(ZoneError) as refused:
        load_zone(name)
    assert str(refused.value) == message


def test_the_variable_decides_before_the_file(tmp_path: Path) -> None:
    """A wrong name of a zone means UTC, and so does no name."""
    file = Path("/usr/share/zoneinfo/Asia/Tokyo")
    if not file.exists():
        pytest.skip("this machine has no files of time zones")
    localtime = tmp_path / "localtime"
    localtime.symlink_to(file)
    nothing = tmp_path / "nothing"
    environments: list[dict[str, str]] = [
        {},
        {"TZ": ""},
        {"TZ": "Europe/Berlin"},
        {"TZ": ":Europe/Berlin"},
        {"TZ": "/usr/share/zoneinfo/Europe/Berlin"},
        {"TZ": "Nowhere"},
    ]
    offsets = [
        WINTER.astimezone(local_zone(each, localtime)).strftime("%z")
        for each in environments
    ]
    assert offsets == ["+0900", "+0000", "+0100", "+0100", "+0100", "+0000"]
    assert local_zone({}, nothing) == UTC
    nothing.write_text("no zone")
    assert local_zone({}, nothing) == UTC


def test_a_schedule_without_a_zone_uses_the_zone_of_the_machine() -> None:
    """A schedule with a zone does not; TZ=Local is the zone of the machine."""
    following = [
        parse_in_zone(text, zone, LOCAL).next_after(WINTER)
        for text, zone in (
            ("0 9 * * *", None),
            ("TZ=Local 0 9 * * *", None),
            ("TZ=UTC 0 9 * * *", None),
            ("0 9 * * *", "Asia/Tokyo"),
            ("@daily", "Asia/Tokyo"),
            ("TZ=UTC 0 9 * * *", "Asia/Tokyo"),
        )
    ]
    hours = [each and (each - WINTER) / timedelta(hours=1) for each in following]
    assert hours == [6, 6, 9, 24, 15, 9]


WEEK = timedelta(days=7)

ZONES = ["UTC", "Asia/Kathmandu", "America/New_York", "Europe/Berlin", "Europe/London"]
"""Zones whose clocks change by an hour, and not at midnight, if they change."""

STRANGE_ZONES = [
    *("America/Sao_Paulo", "America/Havana", "Africa/Cairo", "Asia/Beirut"),
    *("Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia", "Asia/Tehran"),
]
"""Zones whose clocks change at midnight, or not by an hour."""

CHANGES = [
    datetime(2026, 3, 8, 7, tzinfo=UTC),
    datetime(2026, 11, 1, 6, tzinfo=UTC),
    datetime(2026, 3, 29, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2018, 11, 4, 3, tzinfo=UTC),
    datetime(2018, 2, 18, 2, tzinfo=UTC),
    datetime(2026, 4, 23, 22, tzinfo=UTC),
    datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
    datetime(2026, 4, 4, 15, tzinfo=UTC),
    datetime(2011, 12, 30, 10, tzinfo=UTC),
]
"""When clocks change in one of the zones."""

moments = st.one_of(
    st.builds(
        lambda change, seconds: change + timedelta(seconds=seconds),
        st.sampled_from(CHANGES),
        st.integers(-3 * 86400, 86400),
    ),
    st.integers(0, 20 * 365 * 86400).map(
        lambda seconds: datetime(2015, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    ),
)


def part(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.lists(number, min_size=2, max_size=2).map(
        lambda both: f"{min(both)}-{max(both)}"
    )
    step = st.one_of(st.just(""), st.integers(1, high).map("/{}".format))
    return st.builds(
        "{}{}".format, st.one_of(number.map(str), span, st.just("*")), step
    )


def field(low: int, high: int) -> st.SearchStrategy[str]:
    some = st.lists(part(low, high), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), some)


times = st.builds(
    "{} {} * * *".format, field(0, 59), st.one_of(st.just("0-3"), field(0, 23))
)

# A star in a list beside other parts, and one with a step, have meanings of their own
# for days; the table of upstream has them.
plain = st.one_of(
    st.just("*"),
    st.integers(1, 6).map(str),
    st.integers(1, 3).map("{}-6".format),
    st.integers(1, 3).map("{},5".format),
)
dates = st.builds(
    "{} {} {} {} {}".format, field(0, 59), field(0, 23), plain, plain, plain
)


def parsed(text: str, zone: str) -> CronSchedule:
    schedule = parse_in_zone(text, zone)
    assert isinstance(schedule, CronSchedule)
    return schedule


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(text=st.one_of(times, dates), zone=st.sampled_from(ZONES), moment=moments)
def test_the_next_run_is_the_next_match(text: str, zone: str, moment: datetime) -> None:
    """A time that clocks skip is left out, a time that they show twice is due twice."""
    expected = oracle.next_after(text, ZoneInfo(zone), moment, WEEK)
    found = parsed(text, zone).next_after(moment)
    if found is not None and found >= moment + WEEK:
        found = None
    assert found == expected


@settings(max_examples=100, deadline=None)
@given(
    text=st.one_of(times, dates),
    zone=st.sampled_from([*ZONES, *STRANGE_ZONES]),
    moment=moments,
)
def test_every_run_matches_and_is_ahead(text: str, zone: str, moment: datetime) -> None:
    found = parsed(text, zone).next_after(moment)
    if found is None:
        return
    assert found > moment
    one_minute = timedelta(minutes=1)
    assert found == oracle.next_after(
        text, ZoneInfo(zone), found - one_minute, 2 * one_minute
    )


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    text=st.one_of(times, dates, st.integers(1, 7200).map("@every {}s".format)),
    zone=st.sampled_from([*ZONES, *STRANGE_ZONES]),
    moment=moments,
    minutes=st.integers(0, 6000),
)
def test_the_due_runs_are_found_one_after_the_other(
    text: str, zone: str, moment: datetime, minutes: int
) -> None:
    schedule = parse_in_zone(text, zone)
    end = moment + timedelta(minutes=minutes)
    chain: list[datetime] = []
    following = schedule.next_after(moment)
    while following is not None and following <= end:
        chain.append(following)
        following = schedule.next_after(following)
    latest = chain[-1] if chain else None
    expected = Runs(latest, are_many=len(chain) > MANY)
    assert runs_between(schedule, moment, end) == expected


def test_a_day_that_a_zone_left_out_is_skipped() -> None:
    """Samoa had no 30 December 2011; upstream's search does not end there."""
    christmas = datetime(2011, 12, 25, tzinfo=UTC)
    found = parsed("0 12 5 * *", "Pacific/Apia").next_after(christmas)
    assert found == datetime(2012, 1, 4, 22, tzinfo=UTC)


@given(seconds=st.integers(1, 10**9), moment=moments)
def test_every_counts_from_the_whole_second(seconds: int, moment: datetime) -> None:
    """A fraction of the last run's second is cut off."""
    expected = moment.replace(microsecond=0) + timedelta(seconds=seconds)
    assert EverySchedule(seconds).next_after(moment) == expected
