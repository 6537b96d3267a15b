"""Validation of a spec with replicas, a selector and a pod template."""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.field_values import (
    validate_not_negative,
    validate_unchanged,
)
from controller_manager.devcluster.validation.label_selectors import (
    selects,
    validate_selector,
)
from controller_manager.devcluster.validation.pods import validate_pod_template


def validate_workload(obj: JSON) -> list[Cause]:
    """Check the replicas, selector and template of an object."""
    spec = obj["spec"]
    causes = validate_not_negative(spec, "replicas", "minReadySeconds")
    selector = spec.get("selector")
    causes += validate_required_selector(selector, "deployment")  # replica sets, too
    causes += validate_template_labels(spec, selector)
    causes += validate_pod_template(spec["template"], "spec.template")
    return causes + validate_always_restarts(spec, "ReplicaSet")


def validate_required_selector(selector: JSON | None, owner: str) -> list[Cause]:
    """Check that there is a selector, that it is not empty, and that it is valid.

    `owner` is the kind of the object in upstream's message.
    """
    field = "spec.selector"
    causes = []
    if selector is None:
        causes.append(required(field))
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        why = f"empty selector is invalid for {owner}"
        causes.append(invalid(field, shown(selector), why))
    return causes + validate_selector(selector, field)


def validate_selector_unchanged(old: JSON, new: JSON) -> list[Cause]:
    """Check that an update does not change the selector."""
    return validate_unchanged(old["spec"], new["spec"], "spec", "selector")


def validate_template_labels(spec: JSON, selector: JSON | None) -> list[Cause]:
    """Check that `selector` selects the pods of a spec's template."""
    labels = spec["template"]["metadata"].get("labels", {})
    if selects(selector, labels):
        return []
    field = "spec.template.metadata.labels"
    detail = "`selector` does not match template `labels`"
    return [invalid(field, shown(labels) if labels else "null", detail)]


def validate_always_restarts(spec: JSON, owner: str) -> list[Cause]:
    """Check that pods of a template restart always, and have no deadline.

    `owner` is the kind of the object in upstream's message.
    """
    pod, field = spec["template"]["spec"], "spec.template.spec"
    causes = []
    policy = pod.get("restartPolicy", "Always")
    if policy != "Always":
        where = f"{field}.restartPolicy"
        causes.append(not_supported(where, shown(policy), ("Always",)))
    if "activeDeadlineSeconds" in pod:
        where = f"{field}.activeDeadlineSeconds"
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        causes.append(forbidden_field(where, detail))
    return causes
