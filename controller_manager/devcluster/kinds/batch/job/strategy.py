"""Job: pods that run to completion."""

from collections.abc import Sequence
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
from controller_manager.devcluster.kinds.scheduling_group import (
    GENERIC_WORKLOAD,
    OF_TEMPLATE,
    drop_scheduling_group,
)
from controller_manager.devcluster.server.rest.deletion import Deletion
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
    human_duration,
)
from controller_manager.devcluster.server.storage import Storage

from .selector import JOB, select_own_pods
from .spec_defaults import default_failure_policy
from .status_validation import JOB_STATUS_UPDATE
from .validation import JOB_UPDATE

_NO_LIMIT: Final = 2**31 - 1
_PODS_STAY: Final = (
    "child pods are preserved by default when jobs are deleted; set "
    "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to "
    "suppress this warning"
)


class JobStrategy(Strategy):
    """A job selects its own pods by default."""

    counts_generations: ClassVar = True
    orphans_dependents: ClassVar = True
    selectable_fields: ClassVar = {"status.successful": ("status", "succeeded")}
    absent_fields: ClassVar = {"status.successful": "0"}
    rules: ClassVar = JOB
    update_rules: ClassVar = JOB_UPDATE
    status_update_rules: ClassVar = JOB_STATUS_UPDATE
    columns: ClassVar = (
        NAME,
        Column("Status"),
        Column("Completions"),
        Column("Duration"),
        AGE,
        *CONTAINERS,
        SELECTOR,
    )

    def __init__(self, *, keeps_scheduling_group: bool = False) -> None:
        self._keeps_scheduling_group = keeps_scheduling_group

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in template, counts and policies."""
        spec = obj.setdefault("spec", {})
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        limit = _NO_LIMIT if "backoffLimitPerIndex" in spec else 6
        spec.setdefault("backoffLimit", limit)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        policy = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
        spec.setdefault("podReplacementPolicy", policy)
        spec.setdefault("manualSelector", False)
        default_failure_policy(spec)
        default_template(spec)

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Make the job select its own pods, unless manualSelector is set.

        A job without labels gets those of its template. The field of a feature that is
        off is dropped.
        """
        del storage
        if not self._keeps_scheduling_group:
            drop_scheduling_group(obj, OF_TEMPLATE)
        if not obj["spec"]["manualSelector"]:
            select_own_pods(obj)
        if labels := obj["spec"]["template"]["metadata"].get("labels"):
            obj["metadata"].setdefault("labels", dict(labels))

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Drop the field of a feature that is off, unless it was there before."""
        if not self._keeps_scheduling_group:
            drop_scheduling_group(new, OF_TEMPLATE, old)

    def deletion_warnings(self, options: Deletion) -> Sequence[str]:
        """Warn about a delete request without a propagation policy."""
        return () if options.policy else (_PODS_STAY,)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, status = obj["spec"], obj.get("status", {})
        began, ended = status.get("startTime"), status.get("completionTime")
        until = parse_time(ended) if ended else now
        seconds = (until - parse_time(began)).total_seconds() if began else None
        return [
            name_of(obj),
            _status(obj),
            _completions(obj),
            human_duration(seconds) if seconds is not None else "",
            age(obj, now),
            *container_cells(spec["template"]),
            selector_text(spec.get("selector")),
        ]


def _status(obj: JSON) -> str:
    conditions = {
        each["type"]
        for each in obj.get("status", {}).get("conditions", [])
        if each["status"] == "True"
    }
    for condition in ("Complete", "Failed"):
        if condition in conditions:
            return condition
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    for condition in ("Suspended", "FailureTarget"):
        if condition in conditions:
            return condition
    return "Running"


def _completions(obj: JSON) -> str:
    """Return the column Completions: succeeded pods, and the wanted number."""
    spec = obj["spec"]
    succeeded = obj.get("status", {}).get("succeeded", 0)
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallel = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


KIND: Final = kind_of(
    "batch/v1",
    "jobs",
    JobStrategy(),
    gated=((GENERIC_WORKLOAD, JobStrategy(keeps_scheduling_group=True)),),
)
