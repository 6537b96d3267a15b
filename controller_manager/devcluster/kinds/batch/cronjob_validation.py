"""Validation of the spec of a cron job (batch/validation)."""

import re
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.field_values import validate_not_negative
from controller_manager.schedules.fields import ScheduleError
from controller_manager.schedules.parsing import names_a_zone, parse_schedule
from controller_manager.schedules.zones import ZoneError, load_zone

from .job.validation import JOB_SPEC

_POLICIES: Final = ("Allow", "Forbid", "Replace")
_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def validate_cron_job_spec(spec: JSON, old: JSON | None = None) -> list[Cause]:
    """Check a spec; `old` is the spec that an update replaces."""
    causes = _schedule(spec, old)
    causes += validate_not_negative(spec, "startingDeadlineSeconds")
    zone = spec.get("timeZone")
    if zone is not None and (old is None or zone != old.get("timeZone")):
        causes += _time_zone(zone)
    causes += _concurrency(spec.get("concurrencyPolicy", ""))
    causes += _job_template(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")
    limits = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    return causes + validate_not_negative(spec, *limits)


def _schedule(spec: JSON, old: JSON | None) -> list[Cause]:
    field, text = "spec.schedule", spec.get("schedule", "")
    if not text:
        return [required(field)]
    causes = []
    try:
        parse_schedule(text)
    except ScheduleError as error:
        causes.append(invalid(field, shown(text), str(error)))
    if not names_a_zone(text):
        return causes
    if old is None or not names_a_zone(old.get("schedule", "")):
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        causes.append(invalid(field, shown(text), detail))
    elif "timeZone" in spec:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        causes.append(invalid(field, shown(text), detail))
    return causes


def _time_zone(zone: str) -> list[Cause]:
    field = "spec.timeZone"
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


def _concurrency(policy: str) -> list[Cause]:
    field = "spec.concurrencyPolicy"
    if not policy:
        return [required(field)]
    if policy in _POLICIES:
        return []
    return [not_supported(field, shown(policy), _POLICIES)]


def _job_template(spec: JSON, field: str) -> list[Cause]:
    """Check the spec of the jobs, which select their own pods."""
    causes = JOB_SPEC.errors(spec, path=f"{field}.")
    if "selector" in spec:
        detail = "`selector` will be auto-generated"
        causes.append(invalid(f"{field}.selector", shown(spec["selector"]), detail))
    if spec.get("manualSelector"):
        where = f"{field}.manualSelector"
        causes.append(not_supported(where, "true", ("nil", "false")))
    return causes
