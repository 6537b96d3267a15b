"""The defaults that a job's spec shares with the job template of a cron job."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    Cells,
    Column,
    Deletion,
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
from controller_manager.devcluster.registry.core.templates import (
    default_template,
    template_labels,
)
from controller_manager.devcluster.registry.scheduling_group import (
    GENERIC_WORKLOAD,
    OF_TEMPLATE,
    drop_scheduling_group,
)
from controller_manager.devcluster.scheme.names import is_label
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.label_selectors import selects
from controller_manager.devcluster.validation.text import table

from .job_validation import JOB_SPEC, JOB_STATUS_UPDATE, JOB_UPDATE

# The defaults that a job's spec shares with the job template of a cron job.


def default_failure_policy(spec: JSON) -> None:
    """Fill in the status of the conditions in a pod failure policy."""
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")


# The labels by which a job selects its own pods, and their validation.

_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"


def _own_labels(job: JSON) -> dict[str, str]:
    """Return the labels of the pods of a job that selects its own pods."""
    uid, name = job["metadata"]["uid"], job["metadata"].get("name", "")
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def select_own_pods(job: JSON) -> None:
    """Add labels to the template, and select by one; keep existing labels."""
    own = _own_labels(job)
    template = job["spec"]["template"]["metadata"]
    template["labels"] = {**own, **template.get("labels", {})}
    selector = job["spec"].setdefault("selector", {})
    labels = selector.setdefault("matchLabels", {})
    labels.setdefault(_CONTROLLER_UID, own[_CONTROLLER_UID])


def _generated(job: JSON, _: str, __: JSON) -> Iterator[Cause]:
    """Check that the user gave no other values to the generated labels and selector."""
    spec, own = job["spec"], _own_labels(job)
    if spec["manualSelector"] or "selector" not in spec:
        return
    where = "spec.template.metadata.labels"
    labels = spec["template"]["metadata"].get("labels", {})
    for name in sorted(own, key=_legacy_first):
        detail = f"must be '{own[name]}'"
        if name not in labels:
            yield required(where, detail)
        elif labels[name] != own[name]:
            yield invalid(where, shown(labels), detail)
    if not selects(spec["selector"], own):
        detail = "`selector` not auto-generated"
        yield invalid("spec.selector", shown(spec["selector"]), detail)


def _legacy_first(label: str) -> tuple[bool, str]:
    return "/" in label, label


def _host_names(job: JSON, _: str, __: JSON) -> Iterator[Cause]:
    """Check that a host name with the highest index is no longer than allowed."""
    completions = job["spec"].get("completions", 0)
    if job["spec"]["completionMode"] != "Indexed" or completions <= 0:
        return
    name = job["metadata"].get("name", "")
    longest = f"{name}-{completions - 1}"
    if not is_label(longest):
        detail = f"will not able to create pod with invalid DNS label: {longest}"
        yield invalid("metadata.name", shown(name), detail)


JOB: Final = table(
    """
    hook generated
    spec:
      include JOB_SPEC
      selector: required
      selector: selector
      hook template_labels
    hook host_names
    """,
    _generated,
    template_labels,
    _host_names,
    JOB_SPEC=JOB_SPEC,
)


# Job: pods that run to completion.

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
