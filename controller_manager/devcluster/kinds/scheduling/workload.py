"""Workload: the groups of pods that belong together, such as those of a job."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import NameAndAge
from controller_manager.devcluster.scheme.names import validate_label
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    required,
    shown,
    too_many,
)
from controller_manager.devcluster.validation.field_values import validate_unchanged

from .policy import validate_scheduling_policy

_MOST_TEMPLATES: Final = 8
_TEMPLATES: Final = "spec.podGroupTemplates"


class WorkloadStrategy(NameAndAge):
    """The spec never changes, but an absent reference to a controller may be set."""

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the reference to the controller, and each template."""
        spec = obj["spec"]
        causes = _validate_reference(spec.get("controllerRef"))
        templates = spec.get("podGroupTemplates") or []
        if not templates:
            causes.append(required(_TEMPLATES))
        if len(templates) > _MOST_TEMPLATES:
            causes.append(too_many(_TEMPLATES, len(templates), _MOST_TEMPLATES))
        names: set[str] = set()
        for number, template in enumerate(templates):
            field = f"{_TEMPLATES}[{number}]"
            if (name := template.get("name", "")) in names:
                causes.append(duplicate(field, shown({"name": name})))
            names.add(name)
            causes += validate_label(name, f"{field}.name")
            policy = template["schedulingPolicy"]
            causes += validate_scheduling_policy(policy, f"{field}.schedulingPolicy")
        return causes

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the spec does not change."""
        fields = ["podGroupTemplates"]
        if "controllerRef" in old["spec"]:
            fields.insert(0, "controllerRef")
        return validate_unchanged(old["spec"], new["spec"], "spec", *fields)


def _validate_reference(reference: JSON | None) -> list[Cause]:
    if reference is None:
        return []
    return [
        required(f"spec.controllerRef.{name}")
        for name in ("kind", "name")
        if not reference.get(name)
    ]


KIND: Final = kind_of("scheduling.k8s.io/v1alpha2", "workloads", WorkloadStrategy())
