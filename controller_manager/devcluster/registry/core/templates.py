"""Pod templates and replication controllers."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import (
    NAME,
    Cells,
    Column,
    Strategy,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import (
    container_cells,
    name_of,
    selector_text,
)
from controller_manager.devcluster.registry.pod_spec_defaults import default_template
from controller_manager.devcluster.registry.replicas import ReplicasStrategy
from controller_manager.devcluster.registry.workload_validation import (
    validate_template_labels,
)
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.validation.pods import POD_TEMPLATE, always_restarts
from controller_manager.devcluster.validation.text import table

# PodTemplate: a pod template as an object of its own.


class PodTemplateStrategy(Strategy):
    """Counts the changes of the template as generations."""

    counts_generations: ClassVar = True
    rules: ClassVar = POD_TEMPLATE
    columns: ClassVar = (
        NAME,
        Column("Containers"),
        Column("Images"),
        Column("Pod Labels"),
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the template."""
        default_template(obj)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        del now
        template = obj["template"]
        labels = {"matchLabels": template.get("metadata", {}).get("labels", {})}
        return [name_of(obj), *container_cells(template), selector_text(labels)]


POD_TEMPLATES: Final = kind_of("v1", "podtemplates", PodTemplateStrategy())


# ReplicationController: the predecessor of ReplicaSet.


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


CONTROLLERS: Final = kind_of(
    "v1", "replicationcontrollers", ReplicationControllerStrategy()
)
