"""The feature gate of groups of pods."""

from typing import Final

from controller_manager.options.gates import Gate

GENERIC_WORKLOAD: Final = Gate("GenericWorkload", "ALPHA", default=False)
"""An API server has groups of pods."""
