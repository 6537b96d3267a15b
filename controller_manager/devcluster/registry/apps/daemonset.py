"""DaemonSet: a pod on every node."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    Cells,
    Column,
    Strategy,
    age,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import (
    CONTAINERS,
    SELECTOR,
    container_cells,
    name_of,
    selector_text,
)
from controller_manager.devcluster.registry.pod_spec_defaults import default_template
from controller_manager.devcluster.registry.workload_validation import (
    SELECTOR_UPDATE,
    STATUS_UPDATE,
)
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.text import table

from .daemonset_validation import DAEMON_SET
from .template_generation import set_template_generation, template_generation

_SHOWN: Final = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)

_STATUS: Final = table(
    """
    status:
      currentNumberScheduled, numberMisscheduled, desiredNumberScheduled: not-negative
      numberReady, observedGeneration, updatedNumberScheduled: not-negative
      numberAvailable, numberUnavailable, collisionCount: not-negative
    """
)


class DaemonSetStrategy(Strategy):
    """Writes the counts of nodes also when they are 0.

    An annotation counts the changes of the template: the field of the API that it
    stands for is no longer shown (apis/apps/v1/conversion.go).
    """

    rules: ClassVar = DAEMON_SET
    update_rules: ClassVar = SELECTOR_UPDATE
    status_rules: ClassVar = _STATUS
    status_update_rules: ClassVar = STATUS_UPDATE
    counts_generations: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Desired", "integer"),
        Column("Current", "integer"),
        Column("Ready", "integer"),
        Column("Up-to-date", "integer"),
        Column("Available", "integer"),
        Column("Node Selector"),
        AGE,
        *CONTAINERS,
        SELECTOR,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in template and update strategy."""
        spec = obj.setdefault("spec", {})
        strategy = spec.setdefault("updateStrategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        default_template(spec)

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Set the count of the template's changes to one."""
        del storage
        set_template_generation(obj, max(template_generation(obj), 1))

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Count a change of the template."""
        self.apply_defaults(new)
        changed = old["spec"]["template"] != new["spec"]["template"]
        set_template_generation(new, template_generation(old) + changed)

    def prepare_for_status_update(self, old: JSON, new: JSON) -> None:
        """Keep the count: it is part of the spec."""
        set_template_generation(new, template_generation(old))

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, status = obj["spec"], obj.get("status", {})
        nodes = spec["template"].get("spec", {}).get("nodeSelector")
        return [
            name_of(obj),
            *(status.get(name, 0) for name in _SHOWN),
            selector_text({"matchLabels": nodes} if nodes else None),
            age(obj, now),
            *container_cells(spec["template"]),
            selector_text(spec.get("selector")),
        ]


KIND: Final = kind_of("apps/v1", "daemonsets", DaemonSetStrategy())
