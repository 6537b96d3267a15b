"""Admission: namespaces that end, and quotas."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

from controller_manager.devcluster.kinds import Kind
from controller_manager.devcluster.quantity import format_quantity, parse_quantity
from controller_manager.devcluster.statuses import forbidden, not_found
from controller_manager.devcluster.storage import Storage

JSON = dict[str, Any]

_ENDED: Final = ("Succeeded", "Failed")


def admit_to_namespace(storage: Storage, kind: Kind, namespace: str, name: str) -> None:
    """Refuse new objects in a namespace that is missing or being deleted."""
    stored = storage.collection("namespaces").get(("", namespace))
    if stored is None:
        raise not_found("", "namespaces", namespace)
    if "deletionTimestamp" not in stored.obj["metadata"]:
        return
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    why = (
        f"unable to create new content in namespace {namespace} because it is being "
        "terminated"
    )
    raise forbidden(kind.group, kind.plural, name, why, [cause])


def usage_of(pod: JSON) -> dict[str, Fraction]:
    """Return what one pod takes of a quota."""
    usage = {"pods": Fraction(1), "count/pods": Fraction(1)}
    for container in pod["spec"].get("containers", []):
        resources = container.get("resources", {})
        for group in ("requests", "limits"):
            for name, amount in resources.get(group, {}).items():
                key = f"{group}.{name}"
                usage[key] = usage.get(key, Fraction(0)) + parse_quantity(amount)
    for name in ("cpu", "memory"):
        usage[name] = usage.get(f"requests.{name}", Fraction(0))
    return usage


def _summed(pods: Iterable[JSON], name: str) -> Fraction:
    return sum(
        (
            usage_of(pod).get(name, Fraction(0))
            for pod in pods
            if pod.get("status", {}).get("phase") not in _ENDED
        ),
        Fraction(0),
    )


def quota_status(storage: Storage, quota: JSON) -> JSON:
    """Return the status of a quota by the pods that there are now."""
    namespace = quota["metadata"]["namespace"]
    pods = _pods(storage, namespace)
    hard = quota["spec"].get("hard", {})
    used = {name: format_quantity(_summed(pods, name)) for name in hard}
    return {"hard": hard, "used": used}


def _pods(storage: Storage, namespace: str) -> list[JSON]:
    return [
        stored.obj
        for stored in storage.collection("pods")
        if stored.obj["metadata"]["namespace"] == namespace
    ]


def admit_to_quota(storage: Storage, kind: Kind, pod: JSON) -> None:
    """Refuse a pod that takes more than a quota of its namespace leaves."""
    metadata = pod["metadata"]
    quotas = [
        stored.obj
        for stored in storage.collection("resourcequotas")
        if stored.obj["metadata"]["namespace"] == metadata["namespace"]
    ]
    if not quotas:
        return
    wanted = usage_of(pod)
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
            requested = {name: format_quantity(wanted[name]) for name in over}
            used = {name: format_quantity(_summed(pods, name)) for name in over}
            limited = {name: hard[name] for name in over}
            why = (
                f"exceeded quota: {quota['metadata']['name']}, "
                f"requested: {_pairs(requested)}, used: {_pairs(used)}, "
                f"limited: {_pairs(limited)}"
            )
            raise forbidden(kind.group, kind.plural, metadata["name"], why)


def _pairs(values: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())
