"""Counting what a quota limits (CalculateUsage)."""

from collections.abc import Iterable
from datetime import datetime

from controller_manager.api.core.quotas import ResourceQuota
from controller_manager.api.quantity import ZERO, Quantity, QuantityError
from controller_manager.control.quota.amounts import Amounts, added, masked
from controller_manager.control.quota.scopes import requirements_of
from controller_manager.controllers.cluster.resourcequota.sources import Source


async def recount(
    quota: ResourceQuota, sources: Iterable[Source], now: datetime
) -> tuple[Amounts, list[str]]:
    """Return the usage of each limited resource, and what could not be counted.

    A resource that no source counts has no usage. One that a source could not count
    is left out, and does not stop the others.
    """
    namespace, limited = quota.metadata.namespace, quota.spec.hard or {}
    requirements = requirements_of(quota.spec)
    usage: Amounts = {}
    counted: dict[str, Quantity] = {}
    problems: list[str] = []
    uncounted: set[str] = set()
    for source in sources:
        names = [name for name in limited if source.evaluator.tracks(name)]
        if not names:
            continue
        if not source.is_synced:
            problems.append(f"{source.evaluator.group_resource} are not listed yet")
            uncounted.update(names)
            continue
        try:
            total = await source.total(namespace, requirements, now)
        except QuantityError as error:
            problems.append(f"{source.evaluator.group_resource}: {error}")
            uncounted.update(names)
            continue
        counted.update(dict.fromkeys(names, ZERO))
        usage = added(usage, total)
    known = counted | masked(usage, counted)
    return {name: known[name] for name in known if name not in uncounted}, problems
