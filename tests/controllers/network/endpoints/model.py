"""The addresses that a service should have, as a reader of its objects sees it.

The model knows only the objects that the simulation's users write: one address family.
"""

from controller_manager.api.json_objects import JSON

Offer = tuple[str, int, bool]
"""An IP, a port, and whether it is ready."""


def offers_of(endpoints: JSON) -> set[Offer]:
    """Return the ports and addresses of Endpoints."""
    return {
        (address["ip"], port["port"], field == "addresses")
        for subset in endpoints.get("subsets", [])
        for field in ("addresses", "notReadyAddresses")
        for address in subset.get(field, [])
        for port in subset.get("ports", [])
    }


def expected_offers(service: JSON, pods: list[JSON]) -> set[Offer]:
    """Return the ports and addresses that the Endpoints of a service should have."""
    spec = service["spec"]
    publishes = spec.get("publishNotReadyAddresses", False)
    return {
        (ip, number, publishes or _is_ready(pod))
        for pod in pods
        if selects(service, pod)
        for port in spec.get("ports", [])
        if (ip := _address(pod, including_terminating=publishes))
        and (number := _number(port, pod))
    }


def _number(port: JSON, pod: JSON) -> int | None:
    """Return the number of a service's port at a pod; `None` if it has no such port."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    numbers = (
        each["containerPort"]
        for container in pod["spec"]["containers"]
        for each in container.get("ports", [])
        if each.get("name") == target
    )
    return next(numbers, None)


def selects(service: JSON, pod: JSON) -> bool:
    """Tell whether a pod has all the labels of a service's selector."""
    selector: JSON = service["spec"].get("selector") or {}
    labels: JSON = pod["metadata"].get("labels") or {}
    return bool(selector) and selector.items() <= labels.items()


def _address(pod: JSON, *, including_terminating: bool) -> str:
    """Return the address of a pod that takes part, "" for other pods."""
    status = pod.get("status", {})
    if status.get("phase") in ("Failed", "Succeeded"):
        return ""
    if "deletionTimestamp" in pod["metadata"] and not including_terminating:
        return ""
    return str(status.get("podIP", ""))


def _is_ready(pod: JSON) -> bool:
    return any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in pod.get("status", {}).get("conditions", [])
    )
