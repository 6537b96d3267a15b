"""The rules for the specs of cron jobs (batch/validation)."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    Strategy,
    age,
    human_duration,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import (
    CONTAINERS,
    SELECTOR,
    container_cells,
    name_of,
    selector_text,
)
from controller_manager.devcluster.registry.core.templates import default_template
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

from .job_validation import JOB_SPEC
from .jobs import default_failure_policy

# The rules for the specs of cron jobs (batch/validation).

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


# CronJob: creates jobs on a schedule.

_LONGEST_NAME: Final = 52
"""The name of a job is that of its cron job and eleven more characters."""


class CronJobStrategy(Strategy):
    """Its template has no selector: every job selects its own pods."""

    new_rules: ClassVar = CRON_JOB
    update_rules: ClassVar = CRON_JOB
    counts_generations: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Schedule"),
        Column("Timezone"),
        Column("Suspend", "boolean"),
        Column("Active", "integer"),
        Column("Last Schedule"),
        AGE,
        *CONTAINERS,
        SELECTOR,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in template, policy and limits."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = spec.setdefault("jobTemplate", {})
        default_failure_policy(template.setdefault("spec", {}))
        default_template(template["spec"])

    def validate_name(self, name: str) -> list[Cause]:
        """Check that the name leaves room for that of a job."""
        causes = super().validate_name(name)
        if len(name) > _LONGEST_NAME:
            detail = f"must be no more than {_LONGEST_NAME} characters"
            causes.append(invalid("metadata.name", shown(name), detail))
        return causes

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, status = obj["spec"], obj.get("status", {})
        last = status.get("lastScheduleTime")
        seconds = (now - parse_time(last)).total_seconds() if last else None
        return [
            name_of(obj),
            spec.get("schedule", ""),
            spec.get("timeZone") or NONE,
            str(spec.get("suspend", False)),
            len(status.get("active", [])),
            human_duration(seconds) if seconds is not None else NONE,
            age(obj, now),
            *container_cells(spec["jobTemplate"]["spec"]["template"]),
            selector_text(spec["jobTemplate"]["spec"].get("selector")),
        ]


KIND: Final = kind_of("batch/v1", "cronjobs", CronJobStrategy())
