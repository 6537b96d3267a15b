"""The properties of the endpoint slice controller."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.network.endpointslice import (
    EndpointSliceOptions,
)
from controller_manager.options.config import Config
from tests.controllers.network.endpointslice.workload import NETWORK, ServiceUsers
from tests.controllers.network.slices import SLICES, WRITES_OF_SLICES
from tests.simulation.objects import path_of
from tests.simulation.properties import Properties, Write
from tests.simulation.state import State

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


LIMIT: Final = 3
"""Endpoints of a slice: so few that a service has several slices."""

MANAGER: Final = "endpointslice-controller.k8s.io"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_SERVICE: Final = "kubernetes.io/service-name"


class EndpointSliceProperties(Properties):
    """Slices hold addresses of pods that exist, and in the end exactly those."""

    controller = "endpointslice-controller"
    may_write = WRITES_OF_SLICES
    workload = ServiceUsers

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._pods = state.watch("pods")
        self._addresses: dict[str, set[str]] = {}
        """The addresses that each pod has had, by its uid."""

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Let slices have a few endpoints only."""
        options = EndpointSliceOptions(max_endpoints_per_slice=LIMIT)
        controllers = {**config.controllers, EndpointSliceOptions: options}
        return replace(config, controllers=controllers)

    def before_write(self) -> None:
        """Store the addresses of all pods that have ever existed.

        While no manager writes, a pod may be created and deleted.
        """
        for change in self._pods.take():
            pod = change.after.obj
            known = self._addresses.setdefault(pod["metadata"]["uid"], set())
            known.update(_addresses(pod))

    def after_write(self, write: Write) -> Iterator[str]:
        """Check the slice that the controller has written."""
        if write.controller != self.controller or write.verb == "delete":
            return
        written = write.answered
        endpoints = written.get("endpoints") or []
        if len(endpoints) > LIMIT:
            yield f"{write}: {len(endpoints)} endpoints, {LIMIT} may be in a slice"
        held = Counter(str(each["addresses"]) for each in endpoints)
        for each in endpoints:
            known = self._addresses.get(each["targetRef"]["uid"], set())
            if not known.issuperset(each["addresses"]):
                yield f"{write}: no pod has ever had {each['addresses']}"
            if held[str(each["addresses"])] > 1:
                yield f"{write}: {each['addresses']} twice in a slice"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that the slices of each service have exactly its pods."""
        del managers
        for service in self.state.stored("services"):
            if not service["spec"].get("selector"):
                continue
            yield from self._wrong_slices(service)
        services = {each["metadata"]["uid"] for each in self.state.stored("services")}
        for each in self._managed():
            owner = each["metadata"]["ownerReferences"][0]["uid"]
            if owner not in services:
                yield f"{path_of(each)} is left of a service that is gone"

    def end_state(self) -> JSON:
        """Return the labels of the services; pods differ by the faults."""
        return {
            path_of(each): each["metadata"].get("labels")
            for each in self.state.stored("services", NETWORK)
        }

    def _wrong_slices(self, service: JSON) -> Iterator[str]:
        slices = [
            each
            for each in self._managed(service["metadata"]["namespace"])
            if each["metadata"]["labels"][_SERVICE] == service["metadata"]["name"]
        ]
        if not slices:
            yield f"{path_of(service)} has no slice"
        for each in slices:
            if not each.get("endpoints") and len(slices) > 1:
                yield f"{path_of(each)} is empty beside others"
        held = sorted(_shown(one) for each in slices for one in each["endpoints"] or [])
        wanted = sorted(
            _expected(pod, service)
            for pod in self.state.stored("pods", service["metadata"]["namespace"])
            if _backs(pod, service)
        )
        if held != wanted:
            yield f"{path_of(service)}: the slices have {held}, not {wanted}"

    def _managed(self, namespace: str = "") -> list[JSON]:
        return [
            each
            for each in self.state.stored(SLICES, namespace)
            if each["metadata"].get("labels", {}).get(_MANAGED_BY) == MANAGER
        ]


def _addresses(pod: JSON) -> list[str]:
    return [each["ip"] for each in pod.get("status", {}).get("podIPs", [])]


def _backs(pod: JSON, service: JSON) -> bool:
    labels = pod["metadata"].get("labels", {})
    has_ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    is_selected = service["spec"]["selector"].items() <= labels.items()
    return is_selected and not has_ended and bool(_addresses(pod))


def _is_ready(pod: JSON) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )


def _expected(pod: JSON, service: JSON) -> tuple[object, ...]:
    serving = _is_ready(pod)
    terminating = "deletionTimestamp" in pod["metadata"]
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    ready = published or (serving and not terminating)
    return (
        *(pod["metadata"]["name"], pod["metadata"]["uid"], _addresses(pod)[0]),
        *(ready, serving, terminating),
        _hint(service, pod["spec"]["nodeName"]) if ready else "",
    )


def _hint(service: JSON, node: str) -> str:
    distribution = service["spec"].get("trafficDistribution")
    return node if distribution == "PreferSameNode" else ""


def _shown(endpoint: JSON) -> tuple[object, ...]:
    target, conditions = endpoint["targetRef"], endpoint["conditions"]
    nodes = (endpoint.get("hints") or {}).get("forNodes") or [{"name": ""}]
    return (
        *(target["name"], target["uid"], endpoint["addresses"][0]),
        *(conditions["ready"], conditions["serving"], conditions["terminating"]),
        nodes[0]["name"],
    )


PROPERTIES = EndpointSliceProperties
