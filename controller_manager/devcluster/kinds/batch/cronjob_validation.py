"""The rules for the specs of cron jobs (batch/validation)."""

import re
from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.text import table
from controller_manager.schedules.fields import ScheduleError
from controller_manager.schedules.parsing import names_a_zone, parse_schedule
from controller_manager.schedules.zones import ZoneError, load_zone

from .job.validation import JOB_SPEC

_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def _schedule(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check the schedule; one with a time zone may stay, but not be set."""
    field, text = f"{path}schedule", spec.get("schedule", "")
    if not text:
        yield required(field)
        return
    try:
        parse_schedule(text)
    except ScheduleError as error:
        yield invalid(field, shown(text), str(error))
    if names_a_zone(text) and not names_a_zone(old.get("schedule", "")):
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid(field, shown(text), why)
    elif names_a_zone(text) and "timeZone" in spec:
        why = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield invalid(field, shown(text), why)


def _new_zone(spec: JSON, old: JSON) -> bool:
    return bool(spec.get("timeZone") != old.get("timeZone"))


def _zone(zone: str, field: str) -> list[Cause]:
    if not zone:
        detail = "timeZone must be nil or non-empty string"
        return [invalid(field, shown(zone), detail)]
    if not all(_is_zone_part(part) for part in zone.split("/")):
        return [invalid(field, shown(zone), f"unknown time zone {zone}")]
    causes = []
    if zone.lower() == "local":
        detail = (
            "timeZone must be an explicit time zone as defined in "
            "https://www.iana.org/time-zones"
        )
        causes.append(invalid(field, shown(zone), detail))
    try:
        load_zone(zone)
    except ZoneError as error:
        causes.append(invalid(field, shown(zone), str(error)))
    return causes


def _is_zone_part(part: str) -> bool:
    return (
        part not in (".", "..")
        and not part.startswith("-")
        and _ZONE_PART.fullmatch(part) is not None
    )


def _manual_selector(value: bool, field: str) -> Iterator[Cause]:  # noqa: FBT001 - a check
    if value:
        yield not_supported(field, "true", ("nil", "false"))


CRON_JOB: Final = table(
    """
    spec change:
      hook schedule
      startingDeadlineSeconds: not-negative
      timeZone: zone pointer if new_zone
      concurrencyPolicy: required
      concurrencyPolicy: enum Allow Forbid Replace filled
      jobTemplate:
        spec:
          include JOB_SPEC
          selector: refused "`selector` will be auto-generated"
          manualSelector: manual_selector
      successfulJobsHistoryLimit, failedJobsHistoryLimit: not-negative
    """,
    _schedule,
    _zone,
    _new_zone,
    _manual_selector,
    JOB_SPEC=JOB_SPEC,
)
"""The rules for new cron jobs and for updates, in which some old values may stay."""
