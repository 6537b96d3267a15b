"""Validation of the spec of a cron job (batch/validation)."""

import re
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from controller_manager.devcluster.kinds.batch.job_spec_validation import (
    validate_job_spec,
)
from controller_manager.devcluster.kinds.field_values import validate_not_negative
from controller_manager.devcluster.server.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)

JSON = dict[str, Any]

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
    if "TZ" not in text:
        return []
    if old is None or "TZ" not in old.get("schedule", ""):
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [invalid(field, shown(text), detail)]
    if "timeZone" in spec:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        return [invalid(field, shown(text), detail)]
    return []


def _time_zone(zone: str) -> list[Cause]:
    field = "spec.timeZone"
    if not zone:
        detail = "timeZone must be nil or non-empty string"
        return [invalid(field, shown(zone), detail)]
    if not all(_is_zone_part(part) for part in zone.split("/")):
        return [invalid(field, shown(zone), f"unknown time zone {zone}")]
    if zone.lower() == "local":
        detail = (
            "timeZone must be an explicit time zone as defined in "
            "https://www.iana.org/time-zones"
        )
        return [invalid(field, shown(zone), detail)]
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return [invalid(field, shown(zone), f"unknown time zone {zone}")]
    return []


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
    causes = validate_job_spec(spec, field)
    if "selector" in spec:
        detail = "`selector` will be auto-generated"
        causes.append(invalid(f"{field}.selector", shown(spec["selector"]), detail))
    if spec.get("manualSelector"):
        where = f"{field}.manualSelector"
        causes.append(not_supported(where, "true", ("nil", "false")))
    return causes
