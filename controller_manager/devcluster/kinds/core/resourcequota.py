"""ResourceQuota: how much the pods of a namespace may use."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.control.quota.resources import LIMITS
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)

from .resourcequota_validation import (
    QUOTA,
    QUOTA_STATUS,
    QUOTA_UPDATE,
)


class ResourceQuotaStrategy(Strategy):
    """Shows the usage and the limits."""

    rules: ClassVar = QUOTA
    update_rules: ClassVar = QUOTA_UPDATE
    status_rules: ClassVar = QUOTA_STATUS
    returns_deleted: ClassVar = True
    columns: ClassVar = (NAME, Column("Request"), Column("Limit"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in an empty spec and status."""
        obj.setdefault("spec", {})
        obj.setdefault("status", {})

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table, from the status."""
        status = obj.get("status", {})
        hard, used = status.get("hard") or {}, status.get("used") or {}
        pairs = [f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard)]
        requests = [each for each in pairs if not each.startswith(LIMITS)]
        limits = [each for each in pairs if each.startswith(LIMITS)]
        return [name_of(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


KIND: Final = kind_of("v1", "resourcequotas", ResourceQuotaStrategy())
