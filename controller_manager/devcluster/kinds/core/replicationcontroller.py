"""ReplicationController: the predecessor of ReplicaSet."""

from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.replicas import ReplicasStrategy
from controller_manager.devcluster.kinds.workload_validation import (
    validate_template_labels,
)
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.validation.pods import POD_TEMPLATE, always_restarts
from controller_manager.devcluster.validation.text import table


def _selector(spec: JSON) -> JSON | None:
    selector = spec.get("selector")
    return {"matchLabels": selector} if selector else None


def _template_labels(spec: JSON, _: str, __: JSON) -> list[Cause]:
    return validate_template_labels(spec, _selector(spec))


_CONTROLLER: Final = table(
    """
    spec:
      replicas, minReadySeconds: not-negative
      selector: required
      hook template_labels
      include POD_TEMPLATE ALWAYS_RESTARTS
    """,
    _template_labels,
    POD_TEMPLATE=POD_TEMPLATE,
    ALWAYS_RESTARTS=always_restarts("ReplicationController"),
)


class ReplicationControllerStrategy(ReplicasStrategy):
    """Selects pods by equality; the default selector is the template's labels."""

    orphans_dependents: ClassVar = True
    rules: ClassVar = _CONTROLLER

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in replicas, template, selector and labels."""
        super().apply_defaults(obj)
        if labels := obj["spec"]["template"]["metadata"].get("labels"):
            obj["spec"].setdefault("selector", dict(labels))
            obj["metadata"].setdefault("labels", dict(labels))

    def label_selector(self, obj: JSON) -> JSON | None:
        """Return the LabelSelector of the pods."""
        return _selector(obj["spec"])


KIND: Final = kind_of("v1", "replicationcontrollers", ReplicationControllerStrategy())
