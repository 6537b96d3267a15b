"""Explains quotas: full ones, and the owners whose objects they refuse."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from controller_manager.api.apps.v1 import (
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICASETS,
    STATEFUL_SETS,
)
from controller_manager.api.batch.v1 import CRON_JOBS, JOBS
from controller_manager.api.core.v1 import EVENTS, REPLICATION_CONTROLLERS
from controller_manager.api.json_objects import JSON, object_at
from controller_manager.api.meta import AnyResource
from controller_manager.api.quantity import Quantity, QuantityError, parse_quantity

from .cause import Cause, Item, State, last_change, text_at
from .creation import names_quota
from .cron_jobs import explain_cron_job
from .daemon_sets import explain_daemon_set
from .jobs import explain_job
from .own_causes import spec_cause
from .replicas import explain_replica_set, explain_replication_controller
from .rollout import explain_deployment
from .stateful_sets import explain_stateful_set
from .view import View

_Explain = Callable[[View, Item], Awaitable[tuple[Cause, ...]]]

_OWNERS: Final[Mapping[str, tuple[AnyResource, _Explain]]] = {
    "CronJob": (CRON_JOBS, explain_cron_job),
    "DaemonSet": (DAEMON_SETS, explain_daemon_set),
    "Deployment": (DEPLOYMENTS, explain_deployment),
    "Job": (JOBS, explain_job),
    "ReplicaSet": (REPLICASETS, explain_replica_set),
    "ReplicationController": (REPLICATION_CONTROLLERS, explain_replication_controller),
    "StatefulSet": (STATEFUL_SETS, explain_stateful_set),
}
"""The owners that create objects, and the function that explains them."""

_WITH_CONDITION: Final = (REPLICASETS, REPLICATION_CONTROLLERS)
"""The owners whose condition keeps a refusal after its event is gone."""

_PATIENCE: Final = timedelta(seconds=30)
"""The time in which the controller counts a new quota."""

_EXAMPLES: Final = 20
"""The most owners that are looked at."""

_SHOWN: Final = 5
_ZERO: Final = parse_quantity("0")


async def explain_quota(view: View, item: Item) -> tuple[Cause, ...]:
    """Return a cause for each resource of a quota for which it refuses objects.

    A resource that is used up, and for which no object is refused, is a remark.
    """
    if not _is_counted(item):
        return (_not_counted(view, item),)
    refused = await _refused(view, item)
    fields: dict[str, list[tuple[str, str]]] = {}
    for name, cause in refused:
        fields.setdefault(cause.field, []).append((name, cause.since))
    found = [_refuses(item, field, names) for field, names in fields.items()]
    found += [
        _used_up(item, each)
        for each in used_up(item)
        if f"status.used[{each}]" not in fields
    ]
    return tuple(found)


def used_up(item: Item) -> Sequence[str]:
    """Return the resources of a quota that are used up; not those that it forbids."""
    used = object_at(item.status, "used")
    found = []
    for name, hard in object_at(item.status, "hard").items():
        amounts = [_amount(each) for each in (used.get(name, "0"), hard)]
        if amounts[0] >= amounts[1] > _ZERO:
            found.append(name)
    return found


def _amount(quantity: object) -> Quantity:
    """Return a quantity, zero for one that cannot be read."""
    try:
        return parse_quantity(str(quantity))
    except QuantityError:
        return _ZERO


def _is_counted(item: Item) -> bool:
    """Tell whether the controller has counted all resources of the spec."""
    spec, status = object_at(item.spec, "hard"), object_at(item.status, "hard")
    return spec.keys() == status.keys() and all(
        _amount(spec[name]) == _amount(status[name]) for name in spec
    )


def _not_counted(view: View, item: Item) -> Cause:
    is_new = view.age(last_change(item) or item.created_at) < _PATIENCE
    return spec_cause(
        item,
        "NotObserved" if is_new else "ControllerAbsent",
        "the quota has not been counted yet, so new objects are refused or counted "
        "by its former spec",
        "status.hard",
        "" if is_new else "see that the resource quota controller runs",
        State.PROGRESSING if is_new else State.STUCK,
    )


async def _refused(view: View, item: Item) -> Sequence[tuple[str, Cause]]:
    """Return the names of owners whose objects the quota refuses, and the causes."""
    found: dict[str, Cause] = {}
    looked_at: set[str] = set()
    for kind, name, uid in await _candidates(view, item):
        if uid in looked_at or len(looked_at) >= _EXAMPLES:
            continue
        looked_at.add(uid)
        resource, explain = _OWNERS[kind]
        owner = await view.find(resource, item.namespace, name)
        if owner is None or owner.uid != uid or owner.deleted_at:
            continue
        for cause in _of_quota(await explain(view, owner), item):
            found.setdefault(_root_name(owner), cause)
    return list(found.items())


async def _candidates(view: View, item: Item) -> Sequence[tuple[str, str, str]]:
    """Return kind, name and uid of owners that the quota has refused an object."""
    found: dict[tuple[str, str, str], None] = {}
    for resource in _WITH_CONDITION:
        for each in await view.list(resource, item.namespace):
            condition = each.condition("ReplicaFailure") or {}
            if names_quota(text_at(condition, "message")) == item.name:
                found[resource.kind, each.name, each.uid] = None
    fields = "type=Warning"
    for event in await view.list(EVENTS, item.namespace, fields=fields):
        about = object_at(event.json, "involvedObject")
        kind = text_at(about, "kind")
        if kind in _OWNERS and names_quota(text_at(event.json, "message")) == item.name:
            found[kind, text_at(about, "name"), text_at(about, "uid")] = None
    return list(found)


def _of_quota(causes: Sequence[Cause], item: Item) -> Iterator[Cause]:
    """Yield the causes in chains that say that the quota has no room.

    Each has the time of the refusal.
    """
    for each in causes:
        for below in each.because:
            if below.code == "QuotaFull" and below.object == item.reference:
                yield replace(below, since=each.since)
        yield from _of_quota(each.because, item)


def _root_name(owner: Item) -> str:
    """Return kind and name of an owner, or of the object that controls it."""
    above: JSON = owner.controller or {}
    kind = text_at(above, "kind") or owner.resource.kind
    return f"{kind} {text_at(above, 'name') or owner.name}"


def _refuses(item: Item, field: str, refused: Sequence[tuple[str, str]]) -> Cause:
    """Return the cause for a resource of which the quota has too little."""
    names = [name for name, _ in refused]
    shown = ", ".join(names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return item.cause(
        "QuotaFull",
        f"{_usage(item, field)}, so the API server refuses objects of {shown}{more}",
        field,
        min((since for _, since in refused if since), default=""),
        remedy="raise the quota, or delete objects that count against it",
    )


def _used_up(item: Item, name: str) -> Cause:
    """Return the remark about a resource that is used up."""
    field = f"status.used[{name}]"
    return item.cause(
        "QuotaFull",
        f"{_usage(item, field)}, and no owner is known whose objects are refused",
        field,
        remedy="to have more objects, raise the quota",
        state=State.HEALTHY,
    )


def _usage(item: Item, field: str) -> str:
    name = field.removeprefix("status.used[").removesuffix("]")
    used = object_at(item.status, "used").get(name, "0")
    hard = object_at(item.status, "hard").get(name)
    return f"the quota has {name}: {hard}, {used} of it in use"
