"""The labels by which a job selects its own pods, and their validation."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.workload_validation import (
    validate_template_labels,
)
from controller_manager.devcluster.scheme.names import is_label
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.validation.label_selectors import (
    selects,
    validate_selector,
)

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


def validate_generated_selector(job: JSON) -> list[Cause]:
    """Check that the user gave no other values to the generated labels and selector."""
    spec, own = job["spec"], _own_labels(job)
    if spec["manualSelector"] or "selector" not in spec:
        return []
    field = "spec.template.metadata"
    labels = spec["template"]["metadata"].get("labels", {})
    causes = []
    for name in sorted(own, key=_legacy_first):
        if name not in labels:
            causes.append(required(f"{field}.labels", f"must be '{own[name]}'"))
        elif labels[name] != own[name]:
            detail = f"must be '{own[name]}'"
            causes.append(invalid(f"{field}.labels", shown(labels), detail))
    if not selects(spec["selector"], own):
        detail = "`selector` not auto-generated"
        causes.append(invalid("spec.selector", shown(spec["selector"]), detail))
    return causes


def _legacy_first(label: str) -> tuple[bool, str]:
    return "/" in label, label


def validate_job_selector(spec: JSON) -> list[Cause]:
    """Check that a job has a selector, which its template matches."""
    selector = spec.get("selector")
    causes = [] if selector else [required("spec.selector")]
    causes += validate_selector(selector, "spec.selector")
    return causes + validate_template_labels(spec, selector)


def validate_host_names(job: JSON) -> list[Cause]:
    """Check that a host name with the highest index is no longer than allowed."""
    completions = job["spec"].get("completions", 0)
    if job["spec"]["completionMode"] != "Indexed" or completions <= 0:
        return []
    name = job["metadata"].get("name", "")
    longest = f"{name}-{completions - 1}"
    if is_label(longest):
        return []
    detail = f"will not able to create pod with invalid DNS label: {longest}"
    return [invalid("metadata.name", shown(name), detail)]
