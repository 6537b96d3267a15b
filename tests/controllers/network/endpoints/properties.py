"""The properties of the endpoints controller."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.network.endpoints.desired import CAPACITY
from tests.controllers.network.endpoints.model import expected_offers, offers_of
from tests.controllers.network.endpoints.workload import BY_HAND, NAMES, ServiceUsers
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write
from tests.simulation.state import State
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_ENDPOINTS: Final = "endpoints"
_MANAGED: Final = "endpoints.kubernetes.io/managed-by"
_HEADLESS: Final = "service.kubernetes.io/headless"
_NO_PODS: Final = "ExternalName"


class EndpointsProperties(Properties):
    """Endpoints have the addresses of their service's pods, and go with the service."""

    controller = "endpoints-controller"
    may_write = (
        AllowedWrite(("create", "delete"), _ENDPOINTS),
        AllowedWrite(
            ("update",),
            _ENDPOINTS,
            only(("metadata", "labels"), ("metadata", "annotations"), ("subsets",)),
        ),
    )
    workload = ServiceUsers

    def __init__(self, state: State) -> None:
        """Start with no known address."""
        super().__init__(state)
        self._pods = state.watch("pods")
        self._addresses: set[str] = set()

    def before_write(self) -> None:
        """Store the addresses of all pods that have ever existed."""
        for change in self._pods.take():
            if ip := change.after.obj.get("status", {}).get("podIP"):
                self._addresses.add(ip)

    def after_write(self, write: Write) -> Iterator[str]:
        """Check the write or the deletion."""
        if write.controller != self.controller or write.target.plural != _ENDPOINTS:
            return
        if write.verb == "delete":
            yield from self._wrong_deletion(write)
        elif write.after is not None:
            yield from self._wrong_content(write, write.after)

    def _wrong_deletion(self, write: Write) -> Iterator[str]:
        namespace, name = write.target.namespace, write.target.name
        if not write.is_late and self.state.find("services", namespace, name):
            yield f"{write}: the service {name} is there"

    def _wrong_content(self, write: Write, stored: JSON) -> Iterator[str]:
        offered = {ip for ip, _, _ in offers_of(stored)}
        if strange := sorted(offered - self._addresses):
            yield f"{write}: no pod ever had {strange}"
        if len(offered) > CAPACITY:
            yield f"{write}: {len(offered)} addresses"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check each service that selects pods, and that others have no Endpoints."""
        del managers
        pods = self.state.stored("pods")
        for service in self.state.stored("services"):
            if _has_endpoints(service):
                yield from self._wrong_endpoints(service, pods)
        for endpoints in self.state.stored(_ENDPOINTS):
            metadata = endpoints["metadata"]
            name, namespace = metadata["name"], metadata["namespace"]
            is_managed = _MANAGED in metadata.get("labels", {})
            if is_managed and not self.state.find("services", namespace, name):
                yield f"the Endpoints {name} are left of a service"

    def _wrong_endpoints(self, service: JSON, pods: list[JSON]) -> Iterator[str]:
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        found = self.state.find(_ENDPOINTS, namespace, name)
        if found is None:
            if "deletionTimestamp" not in self._namespace(namespace)["metadata"]:
                yield f"the service {name} has no Endpoints"
            return
        mine = [each for each in pods if each["metadata"]["namespace"] == namespace]
        expected, offered = expected_offers(service, mine), offers_of(found)
        if expected != offered:
            yield f"the Endpoints {name} differ in {sorted(expected ^ offered)}"
        labels = {
            **service["metadata"].get("labels", {}),
            _MANAGED: "endpoint-controller",
        }
        if service["spec"].get("clusterIP") in (None, "None"):
            labels[_HEADLESS] = ""
        if found["metadata"]["labels"] != labels:
            yield f"the Endpoints {name} have the labels {found['metadata']['labels']}"

    def _namespace(self, name: str) -> JSON:
        return self.state.find("namespaces", "", name) or {"metadata": {}}

    def end_state(self) -> JSON:
        """Return the ports and labels of the Endpoints of the users' services."""
        found = {}
        for name in (*NAMES, BY_HAND):
            endpoints = self.state.find(_ENDPOINTS, NAMESPACE, name) or {}
            ports = {port for _, port, _ in offers_of(endpoints)}
            labels = endpoints.get("metadata", {}).get("labels")
            found[name] = sorted(ports), labels
        return found


def _has_endpoints(service: JSON) -> bool:
    spec = service["spec"]
    is_by_hand = service["metadata"]["name"] == BY_HAND
    return (
        bool(spec.get("selector")) and spec.get("type") != _NO_PODS and not is_by_hand
    )


PROPERTIES = EndpointsProperties
