"""The defaults of a volume claim and of the template of one (apis/core/v1)."""

from controller_manager.api.json_objects import JSON


def default_claim(claim: JSON) -> None:
    """Fill in the volume mode and the phase."""
    claim.setdefault("metadata", {})
    spec = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("resources", {})
    claim.setdefault("status", {}).setdefault("phase", "Pending")
