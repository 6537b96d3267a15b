"""The feature gates of the horizontal pod autoscaler controller."""

from typing import Final

from controller_manager.options.gates import Gate

SCALE_TO_ZERO: Final = Gate("HPAScaleToZero", "ALPHA", default=False)
"""An autoscaler may scale its target to zero, and back by an object's metric.

The API server refuses minReplicas 0 while its own gate is disabled.
"""

CONFIGURABLE_TOLERANCE: Final = Gate("HPAConfigurableTolerance")
"""The tolerances of an autoscaler's behavior count instead of the manager's."""
