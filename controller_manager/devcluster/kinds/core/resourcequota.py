"""ResourceQuota: how much the pods of a namespace may use."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.core.quotas import recount_quotas
from controller_manager.devcluster.kinds.field_values import validate_quantity
from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.statuses import Cause
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, Column, age

JSON = dict[str, Any]


class ResourceQuotaStrategy(Strategy):
    """Shows the usage and the limits."""

    returns_deleted: ClassVar = True
    columns: ClassVar = (NAME, Column("Request"), Column("Limit"), AGE)
    messages: ClassVar = {
        "ResourceQuota": {
            1: "metadata:ObjectMeta",
            2: "spec:ResourceQuotaSpec",
            3: "status:ResourceQuotaStatus",
        },
        "ResourceQuotaSpec": {1: "hard:{}Quantity", 2: "scopes:[]str"},
        "ResourceQuotaStatus": {1: "hard:{}Quantity", 2: "used:{}Quantity"},
    }

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in an empty spec and status."""
        obj.setdefault("spec", {})
        obj.setdefault("status", {})

    def after_change(self, namespace: str, storage: Storage) -> None:
        """Recount the quotas of the namespace."""
        recount_quotas(storage, namespace)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check that the limits are quantities."""
        return [
            cause
            for name, amount in obj["spec"].get("hard", {}).items()
            for cause in validate_quantity(amount, f"spec.hard[{name}]")
        ]

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        hard = obj.get("spec", {}).get("hard", {})
        used = obj.get("status", {}).get("used", {})
        pairs = [f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard)]
        requests = [each for each in pairs if not each.startswith("limits.")]
        limits = [each for each in pairs if each.startswith("limits.")]
        return [name_of(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


KIND: Final = Kind(
    "",
    "v1",
    "ResourceQuota",
    "resourcequotas",
    model="V1ResourceQuota",
    short_names=("quota",),
    subresources=(status_of("ResourceQuota"),),
    strategy=ResourceQuotaStrategy(),
)
