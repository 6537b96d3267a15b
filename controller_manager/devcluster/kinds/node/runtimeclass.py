"""RuntimeClass: names a container runtime; the simulated kubelets ignore it."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.taint_validation import validate_tolerations
from controller_manager.devcluster.scheme.names import validate_label, validate_labels
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.field_values import (
    IMMUTABLE,
    validate_quantity,
)


class RuntimeClassStrategy(Strategy):
    """The handler is immutable (pkg/apis/node/validation)."""

    columns: ClassVar = (NAME, Column("Handler"), AGE)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the handler, the overhead and the scheduling."""
        causes = validate_label(obj.get("handler", ""), "handler")
        fixed = obj.get("overhead", {}).get("podFixed", {})
        for resource, amount in fixed.items():
            causes += validate_quantity(amount, f"overhead.limits[{resource}]")
        scheduling = obj.get("scheduling", {})
        selector = scheduling.get("nodeSelector", {})
        causes += validate_labels(selector, "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations", ())
        return [*causes, *validate_tolerations(tolerations, "scheduling.tolerations")]

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the handler is the same."""
        before, after = old.get("handler"), new.get("handler")
        if before == after:
            return ()
        return (invalid("handler", shown(after), IMMUTABLE),)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), obj.get("handler", ""), age(obj, now)]


KIND: Final = kind_of("node.k8s.io/v1", "runtimeclasses", RuntimeClassStrategy())
