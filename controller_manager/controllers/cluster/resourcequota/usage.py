"""Adds up the usage of the objects of a namespace, from the caches (CalculateUsage).

Pure functions compute the status of a quota from it (syncResourceQuota).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from controller_manager.api.core.resources import ResourceQuota, ResourceQuotaStatus
from controller_manager.api.meta import KubeObject
from controller_manager.api.quantity import ZERO, Quantity, QuantityError
from controller_manager.control.quota import resources
from controller_manager.control.quota.evaluators import Evaluator
from controller_manager.control.quota.scopes import Requirement, requirements_of
from controller_manager.informers.dispatch import Registration
from controller_manager.informers.store import BY_NAMESPACE, Store
from controller_manager.runtime.worker import Turns

_OBJECTS_PER_TURN: Final = 50
"""The number of objects that are added up before other tasks may run."""


class Source(Protocol):
    """Adds up the objects of one resource."""

    @property
    def evaluator(self) -> Evaluator:
        """The rules by which quotas charge for the objects."""

    @property
    def is_synced(self) -> bool:
        """True once all objects are known."""

    async def total(
        self, namespace: str, requirements: Sequence[Requirement], now: datetime
    ) -> resources.Amounts:
        """Return the usage of the objects that meet all requirements.

        Raises QuantityError if an object has an invalid quantity.
        """


class CachedObjects:
    """Adds up objects of which the cache has more than their metadata.

    It reads each object of the namespace, and multiplies the usage of equal objects:
    10,000 pods of one deployment take one addition.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        store: Store[Any],
        turns: Turns,
        is_synced: Callable[[], bool] = lambda: True,
    ) -> None:
        store.add_index(BY_NAMESPACE)
        self.evaluator = evaluator
        self._store = store
        self._turns = turns
        self._is_synced = is_synced

    @property
    def is_synced(self) -> bool:
        """True once all objects are known."""
        return self._is_synced()

    async def total(
        self, namespace: str, requirements: Sequence[Requirement], now: datetime
    ) -> resources.Amounts:
        """Return the usage of the objects that meet all requirements."""
        groups: dict[Hashable, tuple[resources.Amounts, list[int]]] = {}
        meets, turn = self.evaluator.meets, 0
        objects = self._store.by_index(BY_NAMESPACE, namespace)
        for number, obj in enumerate(objects):
            if number % _OBJECTS_PER_TURN == 0:
                turn = await self._turns.wait(turn)
            if requirements and not all(meets(each, obj) for each in requirements):
                continue
            shape = self.evaluator.shape(obj, now)
            if shape is not None and shape in groups:
                groups[shape][1][0] += 1
            else:
                usage = self.evaluator.usage(obj, now)
                groups[number if shape is None else shape] = (usage, [1])
        return _sum(groups.values())


def _sum(groups: Iterable[tuple[resources.Amounts, list[int]]]) -> resources.Amounts:
    total: resources.Amounts = resources.NOTHING
    for usage, (number,) in groups:
        if number > 1:
            usage = {name: amount * number for name, amount in usage.items()}  # noqa: PLW2901
        total = resources.added(total, usage)
    return total


class Tally:
    """Counts objects by namespace as their informer shows them.

    `names` are the resources that count them. It is not synced without a registration.
    The caches of counted objects have no index by namespace: a number is enough.
    """

    def __init__(self, evaluator: Evaluator, names: Sequence[str]) -> None:
        self.evaluator = evaluator
        self._names = names
        self._numbers: dict[str, int] = {}
        self.registration: Registration[Any] | None = None

    @property
    def is_synced(self) -> bool:
        """True once all objects are known."""
        return self.registration is not None and self.registration.is_synced

    def seen(self, obj: KubeObject) -> None:
        """Count a new object."""
        namespace = obj.metadata.namespace
        self._numbers[namespace] = self._numbers.get(namespace, 0) + 1

    def gone(self, obj: KubeObject) -> None:
        """Stop to count a deleted object."""
        namespace = obj.metadata.namespace
        number = self._numbers.get(namespace, 0) - 1
        if number > 0:
            self._numbers[namespace] = number
        else:
            self._numbers.pop(namespace, None)

    async def total(
        self, namespace: str, requirements: Sequence[Requirement], now: datetime
    ) -> resources.Amounts:
        """Return the number of objects, zero for a quota with scopes."""
        del now
        number = 0 if requirements else self._numbers.get(namespace, 0)
        return dict.fromkeys(self._names, Quantity.of(number))


async def recount(
    quota: ResourceQuota, sources: Iterable[Source], now: datetime
) -> tuple[resources.Amounts, list[str]]:
    """Return the usage of each limited resource, and the problems of sources.

    A resource that no source counts has no usage. A resource that a source could not
    count is left out, and the other resources are counted.
    """
    namespace, limited = quota.metadata.namespace, quota.spec.hard or {}
    requirements = requirements_of(quota.spec)
    usage: resources.Amounts = {}
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
        else:
            counted.update(dict.fromkeys(names, ZERO))
            usage = resources.added(usage, total)
    known = counted | resources.masked(usage, counted)
    return {name: known[name] for name in known if name not in uncounted}, problems


def status_to_write(
    quota: ResourceQuota, usage: resources.Amounts
) -> ResourceQuotaStatus | None:
    """Return the status with a counted usage, `None` if the quota has it already.

    A resource that could not be counted keeps its former usage. Amounts are compared,
    not texts: ``1000m`` is ``1``.

    Raises QuantityError for an invalid quantity.
    """
    status = quota.status
    hard = quota.spec.hard or {}
    known = resources.amounts(status.used)
    used = resources.masked(known | dict(usage), hard)
    if resources.amounts(hard) == resources.amounts(status.hard) and used == known:
        return None
    return ResourceQuotaStatus(hard=hard, used=resources.printed(used))


def limits_differ(old: ResourceQuota, new: ResourceQuota) -> bool:
    """Tell whether two versions of a quota limit different amounts, or other objects.

    The scopes cannot change, but their selector can.
    """
    if old.spec.scope_selector != new.spec.scope_selector:
        return True
    before, after = old.spec.hard, new.spec.hard
    return before != after and resources.amounts(before) != resources.amounts(after)


def is_settled(quota: ResourceQuota) -> bool:
    """Tell whether the status shows the limits of the spec."""
    hard, shown = quota.spec.hard or {}, quota.status.hard or {}
    return hard == shown or resources.amounts(hard) == resources.amounts(shown)
