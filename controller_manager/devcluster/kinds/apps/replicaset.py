"""ReplicaSet: keeps a number of equal pods running."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.replicas import ReplicasStrategy
from controller_manager.devcluster.kinds.workload_validation import (
    validate_selector_unchanged,
    validate_workload,
)
from controller_manager.devcluster.server.apimachinery.statuses import Cause
from controller_manager.devcluster.server.rest.kind import SCALE, Kind, status_of


class ReplicaSetStrategy(ReplicasStrategy):
    """The selector is immutable."""

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check replicas, selector and template."""
        return validate_workload(obj)

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the selector does not change."""
        return validate_selector_unchanged(old, new)


KIND: Final = Kind(
    "apps",
    "v1",
    "ReplicaSet",
    "replicasets",
    model="V1ReplicaSet",
    short_names=("rs",),
    categories=("all",),
    subresources=(SCALE, status_of("ReplicaSet")),
    strategy=ReplicaSetStrategy(),
)
