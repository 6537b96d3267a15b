"""The feature gate of the protection of claims."""

from typing import Final

from controller_manager.options.gates import Gate

UNUSED_SINCE: Final = Gate(
    "PersistentVolumeClaimUnusedSinceTime", "ALPHA", default=False
)
"""A condition of a claim says since when no pod uses the claim."""
