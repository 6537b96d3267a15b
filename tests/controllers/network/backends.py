"""Services, pods and Endpoints on a cluster in memory, for tests of controllers."""

from typing import Any

import msgspec

from controller_manager.api.core.services import ENDPOINTS, SERVICES
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES, EndpointSlice
from controller_manager.api.json_objects import JSON
from tests.controllers.hands import Hands

PORTS = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]


def pod_status(ip: str, *, ready: bool = True) -> JSON:
    condition = {
        "type": "Ready",
        "status": str(ready),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    ips = [{"ip": ip}]
    return {"phase": "Running", "podIP": ip, "podIPs": ips, "conditions": [condition]}


def subset_json(*ips: str, port: int = 1) -> JSON:
    return {
        "addresses": [{"ip": each} for each in ips],
        "ports": [{"name": "p", "port": port, "protocol": "TCP"}],
    }


class Services(Hands):
    """A cluster to which a test adds services, nodes, pods and Endpoints."""

    def add_node(self, name: str = "n", zone: str = "a") -> None:
        labels = {"topology.kubernetes.io/zone": zone} if zone else {}
        ready = {"type": "Ready", "status": "True"}
        status = {"allocatable": {"cpu": "4"}, "conditions": [ready]}
        self.put(NODES, name, metadata={"labels": labels}, status=status)

    def add_service(
        self, name: str = "web", metadata: JSON | None = None, **spec: Any
    ) -> None:
        whole = {"selector": {"app": "web"}, "ports": PORTS, **spec}
        present = {key: value for key, value in whole.items() if value is not None}
        self.put(SERVICES, name, metadata=metadata or {}, spec=present)

    def add_pod(self, name: str, ip: str, node: str = "n", **metadata: Any) -> None:
        containers = [{"name": "c", "image": "app:v1"}]
        self.put(
            PODS,
            name,
            metadata={"labels": {"app": "web"}, **metadata},
            spec={"nodeName": node, "containers": containers},
            status=pod_status(ip),
        )

    def set_status(self, name: str, ip: str, *, ready: bool = True) -> None:
        self.edit(PODS, name, status=pod_status(ip, ready=ready))

    def add_endpoints(self, name: str, *ips: str, **metadata: Any) -> None:
        self.put(ENDPOINTS, name, metadata=metadata, subsets=[subset_json(*ips)])

    def ready(self, name: str = "web") -> list[str] | None:
        """Return the addresses of Endpoints that are ready; `None`: no Endpoints."""
        if name not in self.names(ENDPOINTS):
            return None
        return [
            address["ip"]
            for subset in self.stored(ENDPOINTS, name).get("subsets") or ()
            for address in subset.get("addresses") or ()
        ]

    def labelled(self, label: str) -> list[str]:
        """Return the values of a label of all slices."""
        found = [each.metadata.labels or {} for each in self.slices()]
        return sorted(each[label] for each in found)

    def contents(self) -> list[tuple[object, ...]]:
        return [
            (each.endpoints, each.ports, each.address_type) for each in self.slices()
        ]

    def slices(self) -> list[EndpointSlice]:
        encoded = msgspec.json.encode(self.all(ENDPOINT_SLICES))
        found = msgspec.json.decode(encoded, type=list[EndpointSlice])
        return sorted(found, key=lambda each: each.metadata.name)

    def addresses(self) -> list[list[str]]:
        """Return the addresses of each slice."""
        return sorted(
            sorted(one for e in each.endpoints or () for one in e.addresses or ())
            for each in self.slices()
        )
