"""The metadata of the slices of a service (setEndpointSliceLabels)."""

from typing import Final

from msgspec import Struct

from controller_manager.api.core.services import HEADLESS, SERVICES, Service
from controller_manager.api.discovery.v1 import MANAGED_BY, SERVICE_NAME, EndpointPort
from controller_manager.api.meta import OwnerReference, labels_of
from controller_manager.api.owners import controller_reference
from controller_manager.control.endpoints.addresses import is_headless
from controller_manager.control.endpoints.slices.template import SliceTemplate

MANAGER: Final = "endpointslice-controller.k8s.io"
"""The value of the label ``endpointslice.kubernetes.io/managed-by``."""

_RESERVED: Final = frozenset((HEADLESS, MANAGED_BY, SERVICE_NAME))
"""Labels that slices do not copy from their service."""


def slice_labels(service: Service) -> dict[str, str]:
    """Return the labels of the slices of a service: its own, and the reserved ones."""
    labels = {
        key: value for key, value in labels_of(service).items() if key not in _RESERVED
    }
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: MANAGER}


class SliceMetadata(Struct, frozen=True):
    """What all slices of a service have in common."""

    namespace: str
    owner: OwnerReference
    labels: dict[str, str]

    @classmethod
    def of(cls, service: Service) -> "SliceMetadata":
        """Return the metadata of the slices of a service, which owns them."""
        return cls(
            service.metadata.namespace,
            controller_reference(service, SERVICES.api_version, SERVICES.kind),
            slice_labels(service),
        )

    def template(
        self, address_type: str, ports: tuple[EndpointPort, ...]
    ) -> SliceTemplate:
        """Return the template of the slices of one address type and set of ports."""
        return SliceTemplate(
            self.namespace, self.owner, self.labels, address_type, ports
        )
