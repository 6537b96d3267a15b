"""Validation of the changes of a job's spec (batch/validation)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.field_values import validate_unchanged
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown

_IMMUTABLE: Final = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates")


def validate_job_update(old: JSON, new: JSON) -> list[Cause]:
    """Check the changes between two versions of a job."""
    before, after = old["spec"], new["spec"]
    causes = _completions(before, after)
    causes += validate_unchanged(before, after, "spec", "selector")
    if not _same_template(old, after["template"]):
        causes += validate_unchanged(before, after, "spec", "template")
    return causes + validate_unchanged(before, after, "spec", *_IMMUTABLE)


def _completions(before: JSON, after: JSON) -> list[Cause]:
    """Check the completions: an Indexed job may change them with its parallelism."""
    completions = after.get("completions")
    if after.get("completionMode") != "Indexed":
        return validate_unchanged(before, after, "spec", "completions")
    if completions in (None, before.get("completions"), after.get("parallelism")):
        return []
    detail = "can only be modified in tandem with spec.parallelism"
    return [invalid("spec.completions", shown(completions), detail)]


def _same_template(old: JSON, template: JSON) -> bool:
    """Tell whether the fields that are immutable in the state of the job are equal."""
    before = old["spec"]["template"]
    if not _template_is_mutable(old):
        return bool(before == template)
    return _without_mutable_fields(before) == _without_mutable_fields(template)


def _template_is_mutable(job: JSON) -> bool:
    """Tell whether a job may change where its pods run, and their resources.

    It must be suspended and have no active pods. Upstream's feature gates are
    MutableSchedulingDirectivesForSuspendedJobs and
    MutablePodResourcesForSuspendedJobs, both on by default since 1.36.
    """
    status = job.get("status", {})
    stopped = "startTime" not in status or any(
        each["type"] == "Suspended" and each["status"] == "True"
        for each in status.get("conditions", [])
    )
    suspended = bool(job["spec"].get("suspend"))
    return suspended and stopped and not status.get("active")


def _without_mutable_fields(template: JSON) -> JSON:
    metadata = {
        name: value
        for name, value in template.get("metadata", {}).items()
        if name not in ("labels", "annotations")
    }
    spec = {
        name: value
        for name, value in template["spec"].items()
        if name not in (*_SCHEDULING, "affinity")
    }
    affinity = dict(template["spec"].get("affinity", {}))
    affinity.pop("nodeAffinity", None)
    if affinity:
        spec["affinity"] = affinity
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = [{**each, "resources": {}} for each in spec[name]]
    return {**template, "metadata": metadata, "spec": spec}
