"""Validation of the taints of nodes."""

from collections.abc import Sequence

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.validation.affinity import TAINT
from controller_manager.devcluster.validation.rules import each

_TAINTS = each("taints", [TAINT])


def validate_taints(taints: Sequence[JSON]) -> list[Cause]:
    """Return the errors in the taints of a node.

    Upstream calls the field ``metadata.taints``.
    """
    return _TAINTS.errors({"taints": taints}, path="metadata.")
