"""Time zones by name, and the zone of this machine (Go's time.LoadLocation)."""

from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_LOCALTIME: Final = Path("/etc/localtime")


class ZoneError(ValueError):
    """A time zone that does not exist; the message is upstream's."""


def load_zone(name: str, local: tzinfo = UTC) -> tzinfo:
    """Return the zone of a name of the IANA database; the empty name is UTC.

    The name "Local" stands for `local`. Raises ZoneError with Go's message. The
    database of the machine is read first, then the package tzdata.
    """
    if name in ("", "UTC"):
        return UTC
    if name == "Local":
        return local
    if ".." in name or name[0] in "/\\":
        msg = "time: invalid location name"
        raise ZoneError(msg)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        # OSError: the name of a directory. ValueError: no name of a file at all.
        msg = f"unknown time zone {name}"
        raise ZoneError(msg) from error


def local_zone(environment: Mapping[str, str], localtime: Path = _LOCALTIME) -> tzinfo:
    """Return the zone of this machine, for schedules without a zone.

    The variable TZ decides, then the file `localtime`; UTC if neither names a zone.
    """
    name = environment.get("TZ")
    if name is None:
        return _from_file(localtime)
    name = name.removeprefix(":")
    if name.startswith("/"):
        return _from_file(Path(name))
    try:
        return load_zone(name)
    except ZoneError:
        return UTC


def _from_file(path: Path) -> tzinfo:
    try:
        with path.open("rb") as file:
            return ZoneInfo.from_file(file, key="Local")
    except (OSError, ValueError):
        return UTC
