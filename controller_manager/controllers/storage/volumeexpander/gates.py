"""The feature gate of the expansion of volumes."""

from typing import Final

from controller_manager.options.gates import Gate

RECOVER: Final = Gate("RecoverVolumeExpansionFailure", locked=True)
"""A claim says how far its expansion has come, and may ask for less if it fails."""
