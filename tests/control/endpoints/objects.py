"""Services, pods and slices for tests, as an API server would send them."""

from typing import Any

import msgspec

from controller_manager.api.core.services import Service
from controller_manager.api.core.v1 import Pod
from controller_manager.api.discovery.v1 import Endpoint, EndpointSlice
from controller_manager.api.json_objects import JSON

NAMESPACE = "default"


def service(name: str = "web", labels: JSON | None = None, **spec: Any) -> Service:
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"{name}-uid",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels or {},
    }
    whole = {"selector": {"app": "web"}, "clusterIP": "10.0.0.1", **spec}
    return msgspec.convert({"metadata": metadata, "spec": whole}, Service)


def pod(
    name: str,
    *ips: str,
    ready: bool = True,
    labels: JSON | None = None,
    since: str = "2026-01-01T00:00:00Z",
    spec: JSON | None = None,
    phase: str = "Running",
    **metadata: Any,
) -> Pod:
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": since,
    }
    body = {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"{name}-uid",
            "labels": {"app": "web"} if labels is None else labels,
            **metadata,
        },
        "spec": {"nodeName": "n1", **(spec or {})},
        "status": {
            "phase": phase,
            "podIP": ips[0] if ips else "",
            "podIPs": [{"ip": each} for each in ips],
            "conditions": [condition],
        },
    }
    return msgspec.convert(body, Pod)


def endpoint(address: str, *, ready: bool = True, **fields: Any) -> Endpoint:
    conditions = {"ready": ready, "serving": ready, "terminating": False}
    body = {"addresses": [address], "conditions": conditions, **fields}
    return msgspec.convert(body, Endpoint)


def endpoint_slice(name: str, *endpoints: Endpoint, **fields: Any) -> EndpointSlice:
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"{name}-uid"}
    metadata |= fields.pop("metadata", {})
    body = {"metadata": metadata, "addressType": "IPv4", "ports": [], **fields}
    made = msgspec.convert(body, EndpointSlice)
    return msgspec.structs.replace(made, endpoints=endpoints)
