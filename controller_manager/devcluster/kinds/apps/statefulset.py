"""StatefulSet: pods with names and volumes of their own."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.claim_defaults import default_claim
from controller_manager.devcluster.kinds.columns import (
    CONTAINERS,
    container_cells,
    name_of,
)
from controller_manager.devcluster.kinds.core.claim_validation import (
    validate_claim_spec,
)
from controller_manager.devcluster.kinds.pod_spec_defaults import default_template
from controller_manager.devcluster.kinds.replica_status import (
    validate_collision_count,
    validate_replica_status,
)
from controller_manager.devcluster.scheme.names import validate_label
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.server.storage.storage import Storage
from controller_manager.options.gates import Gate

from .statefulset_validation import (
    validate_stateful_set_spec,
    validate_stateful_set_update,
)

_COUNTS: Final = (
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
)
_BOUNDED: Final = (
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
)


class StatefulSetStrategy(Strategy):
    """Most of the spec is immutable."""

    counts_generations: ClassVar = True
    columns: ClassVar = (NAME, Column("Ready"), AGE, *CONTAINERS)

    def __init__(self, *, keeps_max_unavailable: bool = False) -> None:
        self._keeps_max_unavailable = keeps_max_unavailable

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in replicas, template, claims, policies and update strategy."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("partition", 0)
            if self._keeps_max_unavailable:
                rolling.setdefault("maxUnavailable", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
        if "ordinals" in spec:
            spec["ordinals"].setdefault("start", 0)
        default_template(spec)
        for claim in spec.get("volumeClaimTemplates", ()):
            claim.update({"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
            default_claim(claim)

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Drop the field of a feature that is off."""
        del storage
        if not self._keeps_max_unavailable:
            _rolling_update(obj).pop("maxUnavailable", None)

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Drop the field of a feature that is off, unless it was there before."""
        if not self._keeps_max_unavailable and "maxUnavailable" not in (
            _rolling_update(old)
        ):
            _rolling_update(new).pop("maxUnavailable", None)

    def validate_name(self, name: str) -> list[Cause]:
        """Check that the name can be part of the host name of a pod."""
        return validate_label(name, "metadata.name")

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the spec."""
        return validate_stateful_set_spec(obj["spec"])

    def validate_new(self, obj: JSON) -> Sequence[Cause]:
        """Check the templates of claims, which do not change later."""
        templates = obj["spec"].get("volumeClaimTemplates", ())
        return [
            cause
            for number, each in enumerate(templates)
            for cause in validate_claim_spec(
                each["spec"], f"spec.volumeClaimTemplates[{number}].spec"
            )
        ]

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that only the few mutable fields of the spec change."""
        return validate_stateful_set_update(old["spec"], new["spec"])

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check the counts of replicas."""
        ready = "cannot be greater than status.readyReplicas"
        return validate_replica_status(obj, _COUNTS, _BOUNDED, ready)

    def validate_status_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the collision count does not decrease."""
        return validate_collision_count(old, new)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, status = obj["spec"], obj.get("status", {})
        return [
            name_of(obj),
            f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
            age(obj, now),
            *container_cells(spec["template"]),
        ]


def _rolling_update(obj: JSON) -> JSON:
    strategy = obj.get("spec", {}).get("updateStrategy", {})
    rolling: JSON = strategy.get("rollingUpdate", {})
    return rolling


KIND: Final = kind_of(
    "apps/v1",
    "statefulsets",
    StatefulSetStrategy(),
    gated=(
        (
            Gate("MaxUnavailableStatefulSet", default=False),
            StatefulSetStrategy(keeps_max_unavailable=True),
        ),
    ),
)
