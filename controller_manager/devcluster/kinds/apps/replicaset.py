"""ReplicaSet: keeps a number of equal pods running."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.replicas import ReplicasStrategy
from controller_manager.devcluster.kinds.workload_validation import (
    validate_selector_unchanged,
    validate_workload,
)
from controller_manager.devcluster.scheme.statuses import Cause


class ReplicaSetStrategy(ReplicasStrategy):
    """The selector is immutable."""

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check replicas, selector and template."""
        return validate_workload(obj)

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the selector does not change."""
        return validate_selector_unchanged(old, new)


KIND: Final = kind_of("apps/v1", "replicasets", ReplicaSetStrategy())
