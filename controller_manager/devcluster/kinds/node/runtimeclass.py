"""RuntimeClass: names a container runtime; the simulated kubelets ignore it."""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.affinity import TOLERATION
from controller_manager.devcluster.validation.field_values import validate_quantity
from controller_manager.devcluster.validation.text import table


def _overhead(overhead: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the amounts, whose field upstream calls limits."""
    for resource, amount in overhead.get("podFixed", {}).items():
        yield from validate_quantity(amount, f"{path}limits[{resource}]")


_RULES: Final = table(
    """
    handler: label default empty
    overhead:
      hook overhead
    scheduling:
      nodeSelector: labels
      tolerations[]:
        include TOLERATION
    """,
    _overhead,
    TOLERATION=TOLERATION,
)


class RuntimeClassStrategy(Strategy):
    """The handler is immutable (pkg/apis/node/validation)."""

    rules: ClassVar = _RULES
    update_rules: ClassVar = table("handler: immutable")
    columns: ClassVar = (NAME, Column("Handler"), AGE)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), obj.get("handler", ""), age(obj, now)]


KIND: Final = kind_of("node.k8s.io/v1", "runtimeclasses", RuntimeClassStrategy())
