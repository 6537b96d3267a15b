"""Validation of the taints of nodes and of tolerations."""

from collections.abc import Sequence

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.validation.affinity import TAINT, TOLERATION
from controller_manager.devcluster.validation.rules import each

_TAINTS = each("taints", [TAINT])
_TOLERATIONS = each("tolerations", [TOLERATION])


def validate_taints(taints: Sequence[JSON]) -> list[Cause]:
    """Return the errors in the taints of a node.

    Upstream calls the field ``metadata.taints``.
    """
    return _TAINTS.errors({"taints": taints}, path="metadata.")


def validate_tolerations(tolerations: Sequence[JSON], field: str) -> list[Cause]:
    """Return the errors in the tolerations of a pod."""
    found = {"tolerations": tolerations}
    return _TOLERATIONS.errors(found, path=field.removesuffix("tolerations"))
