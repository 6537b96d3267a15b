"""Checks that the pod of this process does not depend on this process's controllers."""

from typing import Any, Final

from controller_manager.api.resource import segment
from controller_manager.client.client import Client
from controller_manager.client.errors import Forbidden, NotFound

from .examination import Examination, OwnPod
from .finding import Finding, error, ok, warning

_DEPTH: Final = 5
"""The most owners that are followed: a pod has three at most (cron job, job, pod)."""


async def check_own_pod(examined: Examination) -> list[Finding]:
    """Follow the owners of this pod, and compare them with the controllers here.

    If all replicas are lost at once, only another manager could make them again.
    """
    pod = examined.pod
    if pod is None:
        return [ok("this process runs in no pod")]
    owners = await _owners(examined.client, pod)
    if owners is None:
        text = f"no pod {pod.namespace}/{pod.name} can be read"
        return [warning(text, "set POD_NAMESPACE and POD_NAME to those of this pod")]
    made_by = {
        descriptor.name: kind
        for descriptor in examined.starting
        for kind in owners
        if _makes(kind, descriptor.name)
    }
    if not made_by:
        by = " of ".join(owners) or "no controller"
        return [ok(f"{pod.namespace}/{pod.name} is made by {by}")]
    names = ", ".join(made_by)
    chain = " and ".join(owners)
    return [
        error(
            f"{pod.namespace}/{pod.name} belongs to a {chain}, and this manager would "
            f"run {names}: if no replica is left, none is made",
            "run it as a static pod, or leave these controllers to another manager",
        )
    ]


async def _owners(client: Client, pod: OwnPod) -> list[str] | None:
    """Return the kinds of the controlling owners, the nearest one first.

    `None` if the pod cannot be found. Objects are listed: the daemon's identity may be
    allowed to list and watch only.
    """
    kinds: list[str] = []
    version, plural, name = "v1", "pods", pod.name
    for _ in range(_DEPTH):
        metadata = await _metadata(client, version, pod.namespace, plural, name)
        if metadata is None:
            return kinds or None
        references = metadata.get("ownerReferences") or ()
        owner = next((each for each in references if each.get("controller")), None)
        if owner is None or owner["kind"] == "Node":  # of a static pod
            return kinds
        kinds.append(owner["kind"])
        version, name = owner["apiVersion"], owner["name"]
        plural = f"{owner['kind'].lower()}s"
    return kinds


async def _metadata(
    client: Client, version: str, namespace: str, plural: str, name: str
) -> dict[str, Any] | None:
    root = "apis" if "/" in version else "api"
    path = f"/{root}/{version}/namespaces/{segment(namespace, 'namespace')}/{plural}"
    query = (("fieldSelector", f"metadata.name={name}"),)
    try:
        found: dict[str, Any] = await client.read(path, dict[str, Any], query)
    except (NotFound, Forbidden):
        return None
    items = found.get("items") or ()
    return next((each["metadata"] for each in items), None)


def _makes(kind: str, controller: str) -> bool:
    """Tell whether a controller is the one of a kind, by upstream's names."""
    return controller == f"{kind.lower()}-controller"
