"""The services of a pod, and the pods of a service (util/controller_utils.go).

Upstream compares each changed pod with all services of its namespace, and each sync of
a service walks over all pods of its namespace. Here both are found by index.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from controller_manager.api.core.services import EXTERNAL_NAME, Service
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import key_of, labels_of
from controller_manager.api.pods import is_ready, is_terminal
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.indexes import (
    BY_LABEL,
    BY_SELECTED_LABEL,
    label_entry,
)
from controller_manager.informers.lister import Lister

SERVICE_INDEXES: Final = (BY_SELECTED_LABEL,)
"""The indexes of services that these functions need."""

POD_INDEXES: Final = (BY_LABEL,)
"""The indexes of pods that these functions need."""


_MAX_KNOWN: Final = 4096
"""The number of label sets whose services are remembered before all are forgotten."""

_PARTS_OF_ENDPOINTS: Final = DependsOn(
    "metadata.labels",
    "metadata.deletionTimestamp",
    "spec.hostname",
    "spec.nodeName",
    "spec.subdomain",
    "status.conditions[Ready]",
    "status.phase",
    "status.podIP",
    "status.podIPs",
)
"""The parts of a pod that its endpoints and their services depend on."""


def selects_pods(service: Service) -> bool:
    """Tell whether the endpoints of a service are those of pods.

    The endpoints of a service without a selector, or with an empty one, are written by
    users. A service of the type ExternalName has no endpoints.
    """
    return bool(service.spec.selector) and service.spec.type != EXTERNAL_NAME


class ServicesOfPods:
    """Finds the services of pods, and remembers them until a service changes.

    The pods of an owner share their labels, and so the keys of their services.
    """

    def __init__(self, services: Lister[Service]) -> None:
        """Take the lister of the services, which must have `SERVICE_INDEXES`."""
        self._services = services
        self._changes = services.changes
        self._known: dict[tuple[str, int], tuple[dict[str, str], Sequence[str]]] = {}
        """The keys by a namespace and the identity of labels, and these labels."""

    def keys(self, pod: Pod) -> Sequence[str]:
        """Return the keys of the services whose selector matches a pod.

        Only services whose selector has one of the pod's labels are checked.
        """
        labels = pod.metadata.labels
        if not labels:
            return ()
        if self._changes != self._services.changes or len(self._known) >= _MAX_KNOWN:
            self._known.clear()
            self._changes = self._services.changes
        place = pod.metadata.namespace, id(labels)
        known = self._known.get(place)
        if known is None:
            # The labels are kept, so that no others get their identity.
            known = self._known[place] = labels, self._found(pod)
        return known[1]

    def _found(self, pod: Pod) -> Sequence[str]:
        namespace, labels = pod.metadata.namespace, labels_of(pod)
        return [
            key_of(service)
            for pair in labels.items()
            for service in self._services.by_index(
                BY_SELECTED_LABEL, label_entry(namespace, *pair)
            )
            if (service.spec.selector or {}).items() <= labels.items()
        ]

    def keys_after_update(self, old: Pod, new: Pod) -> Iterable[str]:
        """Return the keys of the services that an update of a pod concerns.

        If only labels have changed, these are the services that lose or get the pod
        (GetServicesToUpdate).
        """
        has_other_labels = old.metadata.labels != new.metadata.labels
        if has_changed(old, new):
            keys = self.keys(new)
            if has_other_labels:
                keys = [*dict.fromkeys((*self.keys(old), *keys))]
            return keys
        if not has_other_labels:
            return ()
        former, now = self.keys(old), self.keys(new)
        return [key for key in (*former, *now) if (key in former) != (key in now)]


def is_selected(pod: Pod, service: Service) -> bool:
    """Tell whether the selector of a service matches a pod of its namespace."""
    selector = service.spec.selector
    if not selector:
        return False
    return selector.items() <= labels_of(pod).items()


def pods_of(pods: Lister[Pod], service: Service) -> Sequence[Pod]:
    """Return the pods of the namespace that the selector of a service matches.

    The result is empty if the service has no selector. The pods are in the order in
    which the cache got them.
    """
    if not service.spec.selector:
        return ()
    return pods.labelled(service.metadata.namespace, service.spec.selector)


def has_changed(old: Pod, new: Pod) -> bool:
    """Tell whether a pod's endpoints may have changed, apart from its services.

    A change of other conditions, of containers or of times does not matter, so most
    updates by a kubelet cost only this comparison (podEndpointsChanged). The end of the
    pod matters: upstream relies on the kubelet, which changes the Ready condition as
    well.
    """
    before, after = old.metadata, new.metadata
    return (
        before.deletion_timestamp != after.deletion_timestamp
        or old.status.pod_ips != new.status.pod_ips
        or old.status.pod_ip != new.status.pod_ip
        or is_ready(old) != is_ready(new)
        or is_terminal(old) != is_terminal(new)
        or old.spec.node_name != new.spec.node_name
        or old.spec.hostname != new.spec.hostname
        or old.spec.subdomain != new.spec.subdomain
        or before.uid != after.uid
    )


def pod_handler(
    services: ServicesOfPods,
    changed: Callable[[str, Pod], None],
    is_active: Callable[[], bool] = lambda: True,
) -> Handler[Pod]:
    """Return a handler that calls `changed` for each service that a pod concerns.

    It is called with the key of the service and the last known version of the pod. The
    handler does nothing while `is_active` returns False: a standby needs no changes,
    because it syncs all services when it begins to lead.
    """

    def one(pod: Pod) -> None:
        if is_active():
            for key in services.keys(pod):
                changed(key, pod)

    def updated(old: Pod, new: Pod) -> None:
        if is_active() and old is not new:
            for key in services.keys_after_update(old, new):
                changed(key, new)

    return Handler(
        on_add=one, on_update=updated, on_delete=one, depends_on=_PARTS_OF_ENDPOINTS
    )
