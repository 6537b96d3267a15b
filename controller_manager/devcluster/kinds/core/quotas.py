"""Quotas: the usage of pods, and whether a new pod would exceed a quota."""

from collections.abc import Iterable
from typing import Any, Final

from controller_manager.api.quantity import ZERO, Quantity, parse_quantity
from controller_manager.devcluster.server.statuses import forbidden
from controller_manager.devcluster.server.storage import Storage

JSON = dict[str, Any]

_ENDED: Final = ("Succeeded", "Failed")


def _usage(pod: JSON) -> dict[str, Quantity]:
    """Return how much one pod uses of each quota resource."""
    usage = {"pods": Quantity.of(1), "count/pods": Quantity.of(1)}
    for container in pod["spec"].get("containers", []):
        resources = container.get("resources", {})
        for group in ("requests", "limits"):
            for name, amount in resources.get(group, {}).items():
                key = f"{group}.{name}"
                usage[key] = usage.get(key, ZERO) + parse_quantity(amount)
    for name in ("cpu", "memory"):
        usage[name] = usage.get(f"requests.{name}", ZERO)
    return usage


def _summed(pods: Iterable[JSON], name: str) -> Quantity:
    return sum(
        (
            _usage(pod).get(name, ZERO)
            for pod in pods
            if pod.get("status", {}).get("phase") not in _ENDED
        ),
        ZERO,
    )


def _status(storage: Storage, quota: JSON) -> JSON:
    namespace = quota["metadata"]["namespace"]
    pods = _pods(storage, namespace)
    hard = quota["spec"].get("hard", {})
    used = {name: str(_summed(pods, name)) for name in hard}
    return {"hard": hard, "used": used}


def _pods(storage: Storage, namespace: str) -> list[JSON]:
    return [
        stored.obj
        for stored in storage.collection("pods")
        if stored.obj["metadata"]["namespace"] == namespace
    ]


def recount_quotas(storage: Storage, namespace: str) -> None:
    """Update the status of a namespace's quotas, as the quota controller would."""
    collection = storage.collection("resourcequotas")
    for stored in collection:
        metadata = stored.obj["metadata"]
        if metadata["namespace"] != namespace:
            continue
        status = _status(storage, stored.obj)
        if stored.obj.get("status") != status:
            collection.put(
                (namespace, metadata["name"]), {**stored.obj, "status": status}
            )


def admit_to_quota(storage: Storage, pod: JSON) -> None:
    """Refuse a pod that would exceed a quota of its namespace.

    Raises Refusal.
    """
    metadata = pod["metadata"]
    quotas = [
        stored.obj
        for stored in storage.collection("resourcequotas")
        if stored.obj["metadata"]["namespace"] == metadata["namespace"]
    ]
    if not quotas:
        return
    wanted = _usage(pod)
    pods = _pods(storage, metadata["namespace"])
    for quota in quotas:
        hard = quota["spec"].get("hard", {})
        over = [
            name
            for name, limit in sorted(hard.items())
            if name in wanted
            and _summed(pods, name) + wanted[name] > parse_quantity(limit)
        ]
        if over:
            requested = {name: str(wanted[name]) for name in over}
            used = {name: str(_summed(pods, name)) for name in over}
            limited = {name: hard[name] for name in over}
            why = (
                f"exceeded quota: {quota['metadata']['name']}, "
                f"requested: {_pairs(requested)}, used: {_pairs(used)}, "
                f"limited: {_pairs(limited)}"
            )
            raise forbidden("", "pods", metadata["name"], why)


def _pairs(values: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())
