"""HorizontalPodAutoscaler in version v1, which knows CPU only.

Upstream keeps the rest in annotations (pkg/apis/autoscaling/v1/conversion.go).
"""

from datetime import datetime
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.server.rest.kind import Conversion
from controller_manager.devcluster.server.rest.tables import Cells

from .strategy import KIND as STORED
from .strategy import HorizontalPodAutoscalerStrategy
from .v1_conversion import from_v1, to_v1


class OldAutoscalerStrategy(HorizontalPodAutoscalerStrategy):
    """Shows the same row as the version that is stored."""

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return super().cells(from_v1(obj), now)


KIND: Final = kind_of(
    "autoscaling/v1",
    "horizontalpodautoscalers",
    OldAutoscalerStrategy(),
    conversion=Conversion(STORED, to_stored=from_v1, from_stored=to_v1),
)
