"""Checks objects against quotas (CheckRequest of apiserver's resourcequota plugin).

The functions are pure: the caller stores the usage that is returned.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from controller_manager.api.core.resources import ResourceQuota
from controller_manager.api.quantity import ZERO, Quantity
from controller_manager.control.quota.evaluators import Evaluator
from controller_manager.control.quota.resources import (
    Amounts,
    added,
    amounts,
    exceeded,
    growth,
    masked,
)
from controller_manager.control.quota.scopes import requirements_of


def handles(evaluator: Evaluator, new: Any, old: Any | None, subresource: str) -> bool:
    """Tell whether quotas may charge for a write, which may replace `old` (Handles)."""
    if subresource:
        return old is not None and subresource in evaluator.charged_subresources
    return old is None or evaluator.charges_update(old, new)


def check(
    quota: ResourceQuota,
    evaluator: Evaluator,
    new: Any,
    old: Any | None,
    now: datetime,
) -> tuple[Amounts | None, str]:
    """Return the usage of a quota with an object, and the reason for a refusal.

    The usage is `None` if the quota does not count the object. The reason is empty, or
    in the words of the API server. Only limits that the status shows are enforced.
    """
    limits = amounts(quota.status.hard)
    limited = [name for name in limits if evaluator.tracks(name)]
    if not limited or not _selects(quota, evaluator, new):
        return None, ""
    name = quota.metadata.name
    if missing := evaluator.missing(new, limited):
        return None, f"failed quota: {name}: {missing}"
    used = amounts(quota.status.used)
    if any(each not in used for each in limited):
        return None, f"status unknown for quota: {name}, resources: {_listed(limited)}"
    usage = evaluator.usage(new, now)
    if negative := [each for each in usage if usage[each] < ZERO]:
        return None, f"quota usage is negative for resource(s): {_listed(negative)}"
    if old is not None and _selects(quota, evaluator, old):
        usage = growth(usage, evaluator.usage(old, now))
    return _charged(quota, usage, limits, used)


def _selects(quota: ResourceQuota, evaluator: Evaluator, obj: object) -> bool:
    return all(evaluator.meets(each, obj) for each in requirements_of(quota.spec))


def _charged(
    quota: ResourceQuota, usage: Amounts, limits: Amounts, used: Amounts
) -> tuple[Amounts | None, str]:
    """Return the usage with the requested amounts, and the reason for a refusal."""
    requested = {
        name: each for name, each in masked(usage, limits).items() if each.nanos
    }
    if not requested:
        return None, ""
    total: dict[str, Quantity] = added(used, requested)
    if over := exceeded(masked(total, requested), limits):
        return None, (
            f"exceeded quota: {quota.metadata.name}, "
            f"requested: {_pairs(requested, over)}, used: {_pairs(used, over)}, "
            f"limited: {_pairs(limits, over)}"
        )
    return total, ""


def _listed(names: Collection[str]) -> str:
    return ",".join(sorted(names))


def _pairs(values: Amounts, names: Collection[str]) -> str:
    """Print some amounts (prettyPrint)."""
    return ",".join(
        f"{name}={values[name]}" for name in sorted(names) if name in values
    )
