"""Validation of a spec with replicas, a selector and a pod template."""

from typing import Any

import msgspec

from controller_manager.api.selectors import (
    LabelSelector,
    SelectorError,
    compile_selector,
)
from controller_manager.devcluster.kinds.field_values import (
    IMMUTABLE,
    validate_not_negative,
)
from controller_manager.devcluster.kinds.pod_spec_validation import validate_pod_spec
from controller_manager.devcluster.server.names import validate_labels
from controller_manager.devcluster.server.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)

JSON = dict[str, Any]


def validate_workload(obj: JSON) -> list[Cause]:
    """Check the replicas, selector and template of an object."""
    spec = obj["spec"]
    causes = validate_not_negative(spec, "replicas", "minReadySeconds")
    selector = spec.get("selector")
    if selector is None:
        causes.append(required("spec.selector"))
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        why = "empty selector is invalid for deployment"  # for replica sets, too
        causes.append(invalid("spec.selector", shown(selector), why))
    causes += validate_selector(selector, "spec.selector")
    return causes + validate_template(spec, selector)


def validate_selector_unchanged(old: JSON, new: JSON) -> list[Cause]:
    """Check that an update does not change the selector."""
    selector = new["spec"].get("selector")
    if selector == old["spec"].get("selector"):
        return []
    return [invalid("spec.selector", shown(selector), IMMUTABLE)]


def validate_selector(selector: JSON | None, field: str) -> list[Cause]:
    """Check that a label selector is valid."""
    try:
        compile_selector(_typed(selector))
    except SelectorError as error:
        return [invalid(field, shown(selector), str(error))]
    return []


def validate_template(spec: JSON, selector: JSON | None) -> list[Cause]:
    """Check the pod template of a spec, whose labels `selector` must match."""
    template = spec["template"]
    labels = template["metadata"].get("labels", {})
    where = "spec.template"
    causes = []
    try:
        matches = selector is not None and compile_selector(_typed(selector)).matches(
            labels
        )
    except SelectorError:
        matches = True  # reported already
    if not matches:
        causes.append(
            invalid(
                f"{where}.metadata.labels",
                shown(labels) if labels else "null",
                "`selector` does not match template `labels`",
            )
        )
    causes += validate_labels(labels, f"{where}.labels")
    causes += validate_pod_spec(template["spec"], f"{where}.spec")
    policy = template["spec"].get("restartPolicy", "Always")
    if policy != "Always":
        field = f"{where}.spec.restartPolicy"
        causes.append(not_supported(field, shown(policy), ("Always",)))
    return causes


def _typed(selector: JSON | None) -> LabelSelector:
    return msgspec.convert(selector or {}, LabelSelector)
