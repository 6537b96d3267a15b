"""ReplicationController: the predecessor of ReplicaSet."""

from collections.abc import Sequence
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.replicas import ReplicasStrategy
from controller_manager.devcluster.kinds.workload_validation import (
    validate_always_restarts,
    validate_template_labels,
)
from controller_manager.devcluster.scheme.statuses import Cause, required
from controller_manager.devcluster.validation.field_values import validate_not_negative
from controller_manager.devcluster.validation.pods import validate_pod_template


class ReplicationControllerStrategy(ReplicasStrategy):
    """Selects pods by equality; the default selector is the template's labels."""

    orphans_dependents: ClassVar = True

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in replicas, template, selector and labels."""
        super().apply_defaults(obj)
        if labels := obj["spec"]["template"]["metadata"].get("labels"):
            obj["spec"].setdefault("selector", dict(labels))
            obj["metadata"].setdefault("labels", dict(labels))

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the replicas, the selector and the template."""
        spec = obj["spec"]
        causes = validate_not_negative(spec, "replicas", "minReadySeconds")
        if not spec.get("selector"):
            causes.append(required("spec.selector"))
        causes += validate_template_labels(spec, self.label_selector(obj))
        causes += validate_pod_template(spec["template"], "spec.template")
        return causes + validate_always_restarts(spec, "ReplicationController")

    def label_selector(self, obj: JSON) -> JSON | None:
        """Return the LabelSelector of the pods."""
        selector = obj["spec"].get("selector")
        return {"matchLabels": selector} if selector else None


KIND: Final = kind_of("v1", "replicationcontrollers", ReplicationControllerStrategy())
