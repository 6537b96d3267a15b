"""The feature gate of the expansion of volumes."""

from typing import Final

from controller_manager.options.gates import Gate

RECOVER: Final = Gate("RecoverVolumeExpansionFailure", locked=True)
"""The status of a claim has the state of its expansion; a claim may request less
storage after a failure."""
