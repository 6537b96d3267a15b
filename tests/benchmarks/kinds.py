"""The kinds of work: what to create, and when it is done."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.benchmarks.server import NAMESPACE


@dataclass(frozen=True, slots=True)
class Work:
    """Objects of one kind that a controller brings to completion."""

    controllers: str
    """The controllers that do it, as ``--controllers`` names them."""

    path: str
    """The path of the objects in the API."""

    body: Callable[[str, int], JSON]
    """Returns an object of a name and a size."""

    is_complete: Callable[[JSON], bool]
    """Tells whether nothing is left to do for an object."""


def _deployment(name: str, size: int) -> JSON:
    labels = {"app": name}
    spec = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "app", "image": "app:v1"}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    selector = {"matchLabels": labels}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": size, "selector": selector, "template": template},
    }


def _is_rolled(obj: JSON) -> bool:
    """Tell whether the replicas are the wanted ones, updated and available."""
    status = obj.get("status", {})
    names = ("replicas", "updatedReplicas", "availableReplicas")
    return {status.get(name, 0) for name in names} == {
        obj["spec"]["replicas"]
    } and bool(status.get("observedGeneration") == obj["metadata"]["generation"])


def _service(name: str, _: int) -> JSON:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": ports},
    }


DEPLOYMENTS: Final = Work(
    "deployment-controller,replicaset-controller",
    f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    _deployment,
    _is_rolled,
)

SLICES: Final = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"

SERVICES: Final = Work(
    "endpointslice-controller",
    f"/api/v1/namespaces/{NAMESPACE}/services",
    _service,
    lambda _: True,
)
"""A service selects the pods with its name as their label ``app``."""
