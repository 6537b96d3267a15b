"""Services, pods and Endpoints on a cluster in memory, for tests of controllers."""

import asyncio
from typing import Any

import msgspec

from controller_manager.api.core.services import ENDPOINTS, SERVICES, Endpoints
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES, EndpointSlice
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN
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

    def endpoints(self, name: str = "web") -> Endpoints | None:
        if name not in self.names(ENDPOINTS):
            return None
        found = msgspec.json.encode(self.stored(ENDPOINTS, name))
        return msgspec.json.decode(found, type=Endpoints)

    async def ready(self, name: str = "web") -> list[str] | None:
        """Return the addresses that are ready after a second; `None`: no Endpoints."""
        await asyncio.sleep(1)
        found = self.endpoints(name)
        if found is None:
            return None
        return [
            address.ip
            for subset in found.subsets or ()
            for address in subset.addresses or ()
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


class Refusing(InMemoryTransport):
    """Refuses the first writes of a method: with these answers, then no more."""

    def __init__(self, cluster: Hands, method: str, *answers: Response) -> None:
        super().__init__(cluster.server, TOKEN)
        self._method = method
        self._answers = list(answers)

    async def request(self, request: Request) -> Response:
        is_event = "/events" in request.path
        if self._answers and request.method == self._method and not is_event:
            return self._answers.pop(0)
        return await super().request(request)
