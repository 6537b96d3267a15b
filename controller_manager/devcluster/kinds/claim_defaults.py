"""The defaults of a volume claim and of the template of one (apis/core/v1)."""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.quantities import make_canonical


def default_claim(claim: JSON) -> None:
    """Fill in the volume mode and the phase."""
    claim.setdefault("metadata", {})
    spec = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    make_canonical(spec.setdefault("resources", {}), "requests", "limits")
    claim.setdefault("status", {}).setdefault("phase", "Pending")
