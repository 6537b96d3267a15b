"""Computes the status of a quota (syncResourceQuota). Pure functions."""

from controller_manager.api.core.quotas import ResourceQuota, ResourceQuotaStatus
from controller_manager.control.quota.amounts import Amounts, amounts, masked, printed


def status_to_write(quota: ResourceQuota, usage: Amounts) -> ResourceQuotaStatus | None:
    """Return the status with a counted usage, `None` if the quota has it already.

    A resource that could not be counted keeps its former usage. Amounts are compared,
    not texts: ``1000m`` is ``1``.

    Raises QuantityError for an invalid quantity.
    """
    status = quota.status
    hard = quota.spec.hard or {}
    known = amounts(status.used)
    used = masked(known | dict(usage), hard)
    if amounts(hard) == amounts(status.hard) and used == known:
        return None
    return ResourceQuotaStatus(hard=hard, used=printed(used))


def limits_differ(old: ResourceQuota, new: ResourceQuota) -> bool:
    """Tell whether two versions of a quota limit different amounts, or other objects.

    The scopes cannot change, but their selector can.
    """
    if old.spec.scope_selector != new.spec.scope_selector:
        return True
    before, after = old.spec.hard, new.spec.hard
    return before != after and amounts(before) != amounts(after)


def is_settled(quota: ResourceQuota) -> bool:
    """Tell whether the status shows the limits of the spec."""
    hard, shown = quota.spec.hard or {}, quota.status.hard or {}
    return hard == shown or amounts(hard) == amounts(shown)
