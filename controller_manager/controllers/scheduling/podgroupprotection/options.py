"""The feature gate of groups of pods."""

from typing import Final

from controller_manager.options.gates import Gate

GENERIC_WORKLOAD: Final = Gate("GenericWorkload", "ALPHA", default=False)
"""API servers have groups of pods."""
