"""Jobs, and the cron jobs that create them (pkg/apis/batch, registry/batch)."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import Deletion, Strategy, fill
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.names import is_label, validate_subdomain
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.validation.values import selects
from controller_manager.schedules.fields import ScheduleError
from controller_manager.schedules.parsing import names_a_zone, parse_schedule
from controller_manager.schedules.zones import ZoneError, load_zone

from . import batch_validation
from .core import templates
from .kinds import kind_of, true_conditions

_FAILURE_POLICY: Final = {"rules[]": {"onPodConditions[]": {"status": "True"}}}
"""The defaults of a pod failure policy."""

# The labels by which a job selects its own pods

_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"


def _own_labels(job: JSON) -> dict[str, str]:
    uid, name = job["metadata"]["uid"], job["metadata"].get("name", "")
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def _select_own_pods(job: JSON) -> None:
    """Add labels to the template, and select by one; keep existing labels."""
    own = _own_labels(job)
    template = job["spec"]["template"]["metadata"]
    template["labels"] = {**own, **template.get("labels", {})}
    selector = job["spec"].setdefault("selector", {})
    labels = selector.setdefault("matchLabels", {})
    labels.setdefault(_CONTROLLER_UID, own[_CONTROLLER_UID])


def _generated(job: JSON, _: str, __: JSON) -> Iterator[statuses.Cause]:
    """Check that the user gave no other values to the generated labels and selector."""
    spec, own = job["spec"], _own_labels(job)
    if spec["manualSelector"] or "selector" not in spec:
        return
    where = "spec.template.metadata.labels"
    labels = spec["template"]["metadata"].get("labels", {})
    for name in sorted(own, key=lambda each: ("/" in each, each)):
        detail = f"must be '{own[name]}'"
        if name not in labels:
            yield statuses.required(where, detail)
        elif labels[name] != own[name]:
            yield statuses.invalid(where, statuses.shown(labels), detail)
    if not selects(spec["selector"], own):
        detail = "`selector` not auto-generated"
        yield statuses.invalid(
            "spec.selector", statuses.shown(spec["selector"]), detail
        )


def _host_names(job: JSON, _: str, __: JSON) -> Iterator[statuses.Cause]:
    """Check that a host name with the highest index is no longer than allowed."""
    completions = job["spec"].get("completions", 0)
    if job["spec"]["completionMode"] != "Indexed" or completions <= 0:
        return
    name = job["metadata"].get("name", "")
    longest = f"{name}-{completions - 1}"
    if not is_label(longest):
        detail = f"will not able to create pod with invalid DNS label: {longest}"
        yield statuses.invalid("metadata.name", statuses.shown(name), detail)


# Jobs

_NO_LIMIT: Final = 2**31 - 1
_PODS_STAY: Final = (
    "child pods are preserved by default when jobs are deleted; set "
    "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to "
    "suppress this warning"
)


class _JobStrategy(Strategy):
    """A job selects its own pods by default."""

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in template, counts and policies."""
        spec = obj.setdefault("spec", {})
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        limit = _NO_LIMIT if "backoffLimitPerIndex" in spec else 6
        spec.setdefault("backoffLimit", limit)
        super().apply_defaults(obj)
        policy = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
        spec.setdefault("podReplacementPolicy", policy)
        spec.setdefault("manualSelector", False)
        templates.default_template(spec)

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Make the job select its own pods, unless manualSelector is set.

        A job without labels gets those of its template.
        """
        super().prepare_for_create(obj, storage)
        if not obj["spec"]["manualSelector"]:
            _select_own_pods(obj)
        if labels := obj["spec"]["template"]["metadata"].get("labels"):
            obj["metadata"].setdefault("labels", dict(labels))

    def deletion_warnings(self, options: Deletion) -> Sequence[str]:
        """Warn about a delete request without a propagation policy."""
        return () if options.policy else (_PODS_STAY,)


def _status(obj: JSON) -> str:
    conditions = true_conditions(obj)
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


JOBS: Final = kind_of(
    "batch/v1/jobs",
    _JobStrategy(),
    counts_generations=True,
    orphans_dependents=True,
    selectable_fields="status.successful=status.succeeded",
    absent_fields={"status.successful": "0"},
    dropped=("spec.template.spec.schedulingGroup",),
    defaults={
        "spec": {
            "completionMode": "NonIndexed",
            "suspend": False,
            "podFailurePolicy": _FAILURE_POLICY,
        }
    },
    rules="""
        hook generated
        spec:
          include batch_validation.JOB_SPEC
          selector: required selector
          hook templates.template_labels
        hook host_names
        """,
    update_rules=batch_validation.JOB_UPDATE,
    status_update_rules=batch_validation.JOB_STATUS_UPDATE,
    printer="""
        Name
        Status: status
        Completions: completions
        Duration: since .status.startTime until .status.completionTime
        Age
        Containers wide: join .spec.template.spec.containers[].name
        Images wide: join .spec.template.spec.containers[].image
        Selector wide: selector .spec.selector or <none>
        """,
    gated={templates.GENERIC_WORKLOAD: {"dropped": ()}},
)

# Cron jobs

_ZONE_PART: Final = re.compile(r"(?!-|\.\.?$)[A-Za-z.\-_0-9+]{1,14}")
_LONGEST_NAME: Final = 52
"""The name of a job is that of its cron job and eleven more characters."""


def _schedule(spec: JSON, path: str, old: JSON) -> Iterator[statuses.Cause]:
    """Check the schedule; one with a time zone may stay, but not be set."""
    field, text = f"{path}schedule", spec.get("schedule", "")
    if not text:
        yield statuses.required(field)
        return
    try:
        parse_schedule(text)
    except ScheduleError as error:
        yield statuses.invalid(field, statuses.shown(text), str(error))
    if names_a_zone(text) and not names_a_zone(old.get("schedule", "")):
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield statuses.invalid(field, statuses.shown(text), why)
    elif names_a_zone(text) and "timeZone" in spec:
        why = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield statuses.invalid(field, statuses.shown(text), why)


def _zone(zone: str, _: str) -> Iterator[str]:
    if not zone:
        yield "timeZone must be nil or non-empty string"
        return
    if not all(map(_ZONE_PART.fullmatch, zone.split("/"))):
        yield f"unknown time zone {zone}"
        return
    if zone.lower() == "local":
        yield (
            "timeZone must be an explicit time zone as defined in "
            "https://www.iana.org/time-zones"
        )
    try:
        load_zone(zone)
    except ZoneError as error:
        yield str(error)


def _manual_selector(value: bool, field: str) -> Iterator[statuses.Cause]:  # noqa: FBT001 - a check
    if value:
        yield statuses.not_supported(field, "true", ("nil", "false"))


def _name(name: str, field: str) -> Iterator[statuses.Cause]:
    """Check that the name leaves room for that of a job."""
    yield from validate_subdomain(name, field)
    if len(name) > _LONGEST_NAME:
        detail = f"must be no more than {_LONGEST_NAME} characters"
        yield statuses.invalid(field, statuses.shown(name), detail)


_CRON_JOB_DEFAULTS: Final = {
    "spec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"podFailurePolicy": _FAILURE_POLICY}},
    }
}


def _default_cron_job(obj: JSON) -> None:
    fill(obj, _CRON_JOB_DEFAULTS)
    templates.default_template(
        obj["spec"].setdefault("jobTemplate", {}).setdefault("spec", {})
    )


_CRON_JOB: Final = table("""
    spec change:
      hook schedule
      startingDeadlineSeconds: not-negative
      timeZone: zone pointer if changes timeZone
      concurrencyPolicy: required enum Allow Forbid Replace filled
      jobTemplate:
        spec:
          include batch_validation.JOB_SPEC
          selector: refused "`selector` will be auto-generated"
          manualSelector: manual_selector
      successfulJobsHistoryLimit, failedJobsHistoryLimit: not-negative
    """)
"""The rules for new cron jobs and for updates, in which some old values may stay."""
CRON_JOBS: Final = kind_of(
    "batch/v1/cronjobs",
    apply_defaults=_default_cron_job,
    check_name=_name,
    counts_generations=True,
    new_rules=_CRON_JOB,
    update_rules=_CRON_JOB,
    printer="""
        Name
        Schedule: .spec.schedule
        Timezone: .spec.timeZone or <none>
        Suspend boolean: text .spec.suspend or False
        Active integer: count .status.active
        Last Schedule: since .status.lastScheduleTime or <none>
        Age
        Containers wide: join .spec.jobTemplate.spec.template.spec.containers[].name
        Images wide: join .spec.jobTemplate.spec.template.spec.containers[].image
        Selector wide: selector .spec.jobTemplate.spec.selector or <none>
        """,
)
