"""CronJob: creates jobs on a schedule."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import (
    CONTAINERS,
    SELECTOR,
    container_cells,
    name_of,
    selector_text,
)
from controller_manager.devcluster.kinds.pod_spec_defaults import default_template
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
    human_duration,
)

from .cronjob_validation import CRON_JOB
from .job.spec_defaults import default_failure_policy

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
