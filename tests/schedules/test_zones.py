"""Time zones are found by name; the machine's zone is that of TZ or of a file."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from controller_manager.schedules.parsing import parse_in_zone
from controller_manager.schedules.zones import ZoneError, load_zone, local_zone

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
