"""StatefulSet: pods with names and volumes of their own."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    Cells,
    Column,
    Strategy,
    age,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.claim_defaults import default_claim
from controller_manager.devcluster.registry.columns import (
    CONTAINERS,
    container_cells,
    name_of,
)
from controller_manager.devcluster.registry.pod_spec_defaults import default_template
from controller_manager.devcluster.registry.workload_validation import (
    STATUS_UPDATE,
    replica_status,
)
from controller_manager.devcluster.scheme.names import validate_label
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.storage import Storage
from controller_manager.options.gates import Gate

from .statefulset_validation import (
    STATEFUL_SET,
    STATEFUL_SET_CLAIMS,
    STATEFUL_SET_UPDATE,
)

_STATUS: Final = replica_status(
    "replicas, readyReplicas, currentReplicas, updatedReplicas, availableReplicas, "
    "observedGeneration, collisionCount",
    "readyReplicas, currentReplicas, updatedReplicas, availableReplicas",
    "status.readyReplicas",
)


class StatefulSetStrategy(Strategy):
    """Most of the spec is immutable."""

    rules: ClassVar = STATEFUL_SET
    new_rules: ClassVar = STATEFUL_SET_CLAIMS
    update_rules: ClassVar = STATEFUL_SET_UPDATE
    status_rules: ClassVar = _STATUS
    status_update_rules: ClassVar = STATUS_UPDATE
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
