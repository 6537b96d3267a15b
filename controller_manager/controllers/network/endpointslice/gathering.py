"""The backends of the pods that a sync looks at."""

from collections.abc import Iterable

from msgspec import Struct, field

from controller_manager.api.core.services import Service
from controller_manager.api.core.v1 import Node, Pod
from controller_manager.api.meta import key_of
from controller_manager.control.endpoints.addresses import belongs_in_endpoints
from controller_manager.control.endpoints.membership import is_selected
from controller_manager.controllers.network.endpointslice.backends import (
    Backend,
    ServicePorts,
    endpoint_of,
)
from controller_manager.informers.lister import Lister


class Skipped(Struct):
    """Pods without endpoints since their nodes are not known, each with a message."""

    messages: dict[str, str] = field(default_factory=dict)


class Gatherer:
    """Makes backends of pods of one service, as the caches show them now."""

    def __init__(
        self, service: Service, pods: Lister[Pod], nodes: Lister[Node], skipped: Skipped
    ) -> None:
        """Take the service and the caches; pods are noted in `skipped`."""
        self._service = service
        self._pods = pods
        self._nodes = nodes
        self._ports = ServicePorts(service)
        self._skipped = skipped

    def pods(self, names: Iterable[str]) -> list[Pod]:
        """Return those of these pods that the service selects."""
        namespace = self._service.metadata.namespace
        found = (self._pods.get(namespace, name) for name in names)
        return [
            each
            for each in found
            if each is not None and is_selected(each, self._service)
        ]

    def backends(self, pods: Iterable[Pod], address_type: str) -> list[Backend]:
        """Return the backends of pods, for one type of address."""
        found = (self._backend(pod, address_type) for pod in pods)
        return [each for each in found if each is not None]

    def _backend(self, pod: Pod, address_type: str) -> Backend | None:
        if not belongs_in_endpoints(pod, include_terminating=True):
            return None
        node = self._nodes.get("", pod.spec.node_name)
        if node is None and not self._service.spec.publish_not_ready_addresses:
            self._skipped.messages[pod.metadata.name] = (
                f"skipping Pod {pod.metadata.name} for Service "
                f"{key_of(self._service)}: Node {pod.spec.node_name} Not Found"
            )
            return None
        endpoint = endpoint_of(self._service, pod, node, address_type)
        return None if endpoint is None else Backend(self._ports.of(pod), endpoint)
