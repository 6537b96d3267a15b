"""Short ways to make services, pods and Endpoints for tests."""

from typing import Any

import msgspec

from controller_manager.api.core.services import Endpoints, EndpointSubset, Service
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON

HTTP = {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}
MANAGED = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
READY_PORTS = [{"name": "http", "port": 8080, "protocol": "TCP"}]


def service(*ports: JSON, metadata: JSON | None = None, **spec: Any) -> Service:
    """Return the service "web"; without `ports` it has HTTP."""
    body = {
        "metadata": {"name": "web", "namespace": "n", **(metadata or {})},
        "spec": {
            "selector": {"app": "web"},
            "clusterIP": "10.0.0.1",
            "ipFamilies": ["IPv4"],
            "ports": list(ports or (HTTP,)),
            **spec,
        },
    }
    return msgspec.convert(body, Service)


def pod(
    name: str, *ips: str, ready: bool = True, metadata: JSON | None = None, **spec: Any
) -> Pod:
    """Return a running pod with these addresses, on a node."""
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    body = {
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": f"uid-{name}",
            "labels": {"app": "web"},
            **(metadata or {}),
        },
        "spec": {"nodeName": "node", **spec},
        "status": {
            "phase": "Running",
            "podIP": ips[0] if ips else "",
            "podIPs": [{"ip": each} for each in ips],
            "conditions": [condition],
        },
    }
    return msgspec.convert(body, Pod)


def address(name: str, ip: str, **more: str) -> JSON:
    """Return the address of a pod that `pod` has made."""
    target = {"kind": "Pod", "namespace": "n", "name": name, "uid": f"uid-{name}"}
    return {"ip": ip, "nodeName": "node", "targetRef": target, **more}


def endpoints(*subsets: JSON, **metadata: Any) -> Endpoints:
    """Return Endpoints that are stored."""
    body = {
        "metadata": {
            "name": "web",
            "namespace": "n",
            "resourceVersion": "1",
            "labels": MANAGED,
            **metadata,
        },
        "subsets": list(subsets),
    }
    return msgspec.convert(body, Endpoints)


def view(
    backed: Service, *pods: Pod, current: Endpoints | None = None, time: str = ""
) -> tuple[Service, tuple[Pod, ...], Endpoints | None, str]:
    """Return what a sync knows, for `desired_endpoints`."""
    return backed, pods, current, time


def as_json(what: Endpoints | tuple[EndpointSubset, ...] | None) -> Any:
    """Return what would be written."""
    found: Any = msgspec.json.decode(msgspec.json.encode(what))
    return found
