"""The columns of metrics, as metrics-server has them (pkg/api/table.go)."""

from datetime import datetime
from typing import ClassVar

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import NAME, Cells, Column

from .quantities import summed


class MetricsStrategy(Strategy):
    """Shows the usage of a node, or of a pod with all its containers."""

    columns: ClassVar = (NAME, Column("cpu"), Column("memory"), Column("Window"))

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        del now
        containers = obj.get("containers", [obj])
        usages = [each["usage"] for each in containers]
        return [
            obj["metadata"]["name"],
            *(
                summed([each[name] for each in usages if name in each])
                for name in ("cpu", "memory")
            ),
            obj["window"],
        ]
