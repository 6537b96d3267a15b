"""Lease: the holder of a lock, and the duration."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    shown,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.server.storage.storage import Storage
from controller_manager.devcluster.validation.field_values import validate_not_negative
from controller_manager.options.gates import COORDINATED_ELECTION

from .strategies import validate_strategy

_COORDINATION: Final = ("preferredHolder", "strategy")
"""Fields behind the gate CoordinatedLeaderElection."""


class LeaseStrategy(Strategy):
    """Refuses an update without a resourceVersion."""

    allows_unconditional_update: ClassVar = False
    columns: ClassVar = (NAME, Column("Holder"), AGE)

    def __init__(self, *, keeps_coordination: bool = False) -> None:
        """Tell whether the fields of the gate are kept."""
        self._keeps_coordination = keeps_coordination

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Drop the fields of a gate that is disabled."""
        del storage
        if not self._keeps_coordination:
            _drop_coordination(obj)

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Drop the fields of a disabled gate, unless the old lease has them."""
        if self._keeps_coordination:
            return
        if not any(name in old.get("spec", {}) for name in _COORDINATION):
            _drop_coordination(new)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the numbers and the strategy."""
        spec, causes = obj.get("spec", {}), []
        seconds = spec.get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            why = "must be greater than 0"
            causes.append(invalid("spec.leaseDurationSeconds", shown(seconds), why))
        causes += validate_not_negative(spec, "leaseTransitions")
        if "strategy" in spec:
            causes += validate_strategy(spec["strategy"], "spec.strategy")
        if spec.get("preferredHolder") and not spec.get("strategy"):
            why = "may only be specified if `strategy` is defined"
            causes.append(forbidden_field("spec.preferredHolder", why))
        return causes

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        holder = obj.get("spec", {}).get("holderIdentity", "")
        return [name_of(obj), holder, age(obj, now)]


def _drop_coordination(obj: JSON) -> None:
    for name in _COORDINATION:
        obj.get("spec", {}).pop(name, None)


KIND: Final = kind_of(
    "coordination.k8s.io/v1",
    "leases",
    LeaseStrategy(),
    gated=((COORDINATED_ELECTION, LeaseStrategy(keeps_coordination=True)),),
)
