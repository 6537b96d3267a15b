"""Lease: who holds a lock, and for how long."""

from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, Column, age

JSON = dict[str, Any]


class LeaseStrategy(Strategy):
    """Refuses an update without a resourceVersion."""

    messages: ClassVar = {
        "Lease": {1: "metadata:ObjectMeta", 2: "spec:LeaseSpec"},
        "LeaseSpec": {
            1: "holderIdentity:str",
            2: "leaseDurationSeconds:int",
            3: "acquireTime:MicroTime",
            4: "renewTime:MicroTime",
            5: "leaseTransitions:int",
            6: "strategy:str",
            7: "preferredHolder:str",
        },
    }
    allows_unconditional_update: ClassVar = False
    columns: ClassVar = (NAME, Column("Holder"), AGE)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        holder = obj.get("spec", {}).get("holderIdentity", "")
        return [name_of(obj), holder, age(obj, now)]


KIND: Final = Kind(
    "coordination.k8s.io",
    "v1",
    "Lease",
    "leases",
    model="V1Lease",
    strategy=LeaseStrategy(),
)
