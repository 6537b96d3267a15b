"""The labels by which a job selects its own pods, and their validation."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.workload_validation import template_labels
from controller_manager.devcluster.scheme.names import is_label
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.validation.label_selectors import selects
from controller_manager.devcluster.validation.text import table

from .validation import JOB_SPEC

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
