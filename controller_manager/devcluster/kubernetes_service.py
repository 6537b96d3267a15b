"""The service ``kubernetes``: the address of the API server inside the cluster.

Upstream: pkg/controlplane/controller/kubernetesservice, pkg/controlplane/reconcilers.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.registry.objects import Objects

from .kinds.core.endpoints import KIND as ENDPOINTS
from .kinds.core.service.ranges import ranges_of
from .kinds.core.service.strategy import KIND as SERVICES
from .kinds.discovery.endpointslice import KIND as SLICES
from .server.rest.kind import Kind
from .validation.ip_addresses import family_of, parse_address

_NAME: Final = "kubernetes"
_NAMESPACE: Final = "default"
_PORT: Final = 443


def add_kubernetes_service(objects: Objects, host: str, port: int) -> None:
    """Create the service, its Endpoints and its slice, or bring them up to date.

    `host` and `port` are where the server listens.
    """
    clients = {"name": "https", "port": _PORT, "protocol": "TCP", "targetPort": port}
    spec = {"clusterIP": str(ranges_of(objects.storage)[0][1]), "ports": [clients]}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    metadata = {"name": _NAME, "labels": labels}
    if not objects.has(SERVICES, _NAMESPACE, _NAME):
        objects.create(SERVICES, _NAMESPACE, {"metadata": metadata, "spec": spec})
    else:  # an earlier server may have listened on another port
        known = objects.find(SERVICES, _NAMESPACE, _NAME).obj
        changed = {**known, "spec": {**known["spec"], "ports": [clients]}}
        objects.update(SERVICES, _NAMESPACE, _NAME, changed)
    address = parse_address(host)
    family = family_of(address) if address else "IPv4"
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    _add(
        objects,
        ENDPOINTS,
        {"endpointslice.kubernetes.io/skip-mirror": "true"},
        {},
        {"subsets": [{"addresses": [{"ip": host}], "ports": ports}]},
    )
    endpoint = {"addresses": [host], "conditions": {"ready": True}}
    _add(
        objects,
        SLICES,
        {"kubernetes.io/service-name": _NAME},
        {"addressType": family},
        {"endpoints": [endpoint], "ports": ports},
    )


def _add(
    objects: Objects, kind: Kind, labels: dict[str, str], head: JSON, content: JSON
) -> None:
    """Create an object without `content`, then add the content without checks.

    The server listens on the loopback interface, and validation refuses endpoints
    with such addresses.
    """
    metadata = {"name": _NAME, "labels": labels}
    if objects.has(kind, _NAMESPACE, _NAME):
        created = objects.find(kind, _NAMESPACE, _NAME).obj
    else:
        created = objects.create(kind, _NAMESPACE, {"metadata": metadata, **head}).obj
    if created != {**created, **content}:
        objects.put(kind, (_NAMESPACE, _NAME), {**created, **content})
