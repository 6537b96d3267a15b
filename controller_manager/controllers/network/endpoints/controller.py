"""The endpoints controller: writes the addresses of a service's pods.

Upstream: pkg/controller/endpoint/endpoints_controller.go.
"""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.core.services import (
    ENDPOINTS,
    LEADER_ELECTION,
    SERVICES,
    Endpoints,
    Service,
)
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import annotations_of, key_of, split_key
from controller_manager.client.events.recorder import WARNING
from controller_manager.client.rest import errors
from controller_manager.control.endpoints.pods import (
    POD_INDEXES,
    SERVICE_INDEXES,
    ServicesOfPods,
    pod_handler,
    pods_of,
    selects_pods,
)
from controller_manager.control.endpoints.trigger_time import TriggerTimes
from controller_manager.control.expectations import live
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Handles

from . import EndpointsOptions
from .desired import desired_endpoints

EDIT_DELAY: Final = 30.0
"""Seconds until Endpoints that another client has changed are corrected.

Another client, such as an older manager during an upgrade, may change them again and
again. The delay limits how often the two clients write.
"""


class EndpointsReconciler(Reconciler[Service]):
    """Keeps the Endpoints of services that select pods."""

    queue_name = "endpoint"
    watches = (
        For(SERVICES),
        Handles(PODS, lambda self: pod_handler(self._services, self._pod_changed)),
        Handles(
            ENDPOINTS,
            lambda self: Handler(
                on_update=lambda _, new: self._changed(new), on_delete=self._removed
            ),
        ),
    )

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        options = context.config.of(EndpointsOptions)
        self.workers = options.concurrent_syncs
        self._batch_period = options.batch_period
        self._pods = context.lister(PODS, *POD_INDEXES)
        self._endpoints = context.lister(ENDPOINTS)
        self._times = TriggerTimes()
        self._written: dict[str, str] = {}
        self._services = ServicesOfPods(context.lister(SERVICES, *SERVICE_INDEXES))

    # Handlers.

    def _pod_changed(self, key: str, _: Pod) -> None:
        if self._batch_period:
            self.queue.add_after(key, self._batch_period)
        else:
            self.queue.add(key)

    def _changed(self, endpoints: Endpoints) -> None:
        """Sync a service after a delay if another client has changed its Endpoints."""
        key, version = key_of(endpoints), endpoints.metadata.resource_version
        service = self.objects.by_key(key)
        if service and selects_pods(service) and self._written.get(key) != version:
            self.queue.add_after(key, EDIT_DELAY)

    def _removed(self, endpoints: Endpoints) -> None:
        if self.objects.by_key(key := key_of(endpoints)) is not None:
            self.queue.add(key)

    def enqueue_all(self) -> Iterator[None]:
        """Add all services, and the Endpoints whose service is gone.

        Such Endpoints are left over from a time without a manager
        (checkLeftoverEndpoints).
        """
        yield from super().enqueue_all()
        for key in self._endpoints.keys():  # noqa: SIM118 - a lister is no mapping
            known = self._endpoints.by_key(key)
            is_lock = known and LEADER_ELECTION in annotations_of(known.metadata)
            if self.objects.by_key(key) is None and not is_lock:
                self.queue.add(key)
            yield

    def forget(self, key: str) -> None:
        """Drop the state of a service that is gone."""
        self._times.forget(key)
        self._written.pop(key, None)

    # The sync.

    async def reconcile(self, service: Service) -> Outcome:
        """Write the Endpoints of a service if they differ from the desired ones."""
        if not selects_pods(service):
            return DONE
        pods = pods_of(self._pods, service)
        # Observe the time in each sync, so that no later write reports an older change.
        time = self._times.observe(service, pods)
        current = self._endpoints.by_key(key_of(service))
        wanted = desired_endpoints(service, pods, current, time)
        if wanted is not None:
            await self._write(key_of(service), wanted, is_new=current is None)
        return DONE

    async def _write(self, key: str, wanted: Endpoints, *, is_new: bool) -> None:
        client = self.client
        write = client.create_for_metadata if is_new else client.update_for_metadata
        try:
            stored = await write(ENDPOINTS, wanted)
        except (errors.APIError, errors.TransportError) as error:
            if is_new and errors.is_namespace_terminating(error):
                return
            reason = "FailedToCreateEndpoint" if is_new else "FailedToUpdateEndpoint"
            failed = "create endpoint for service" if is_new else "update endpoint"
            message = f"Failed to {failed} {key}: {error}"
            self.recorder.event(ENDPOINTS, wanted, WARNING, reason, message)
            raise
        self._written[key] = stored.metadata.resource_version

    async def reconcile_absent(self, key: str) -> Outcome:
        """Delete the Endpoints of a service that is gone, also hand-made ones.

        Both objects are read from the API server first: the caches may not show yet a
        new service of that name, whose Endpoints may have been written by hand.
        """
        namespace, name = split_key(key)
        # The Endpoints are read before the service: then they are not those of a
        # service that is created between the two reads.
        found = await live(self.client, ENDPOINTS, namespace, name)
        if found is None or await live(self.client, SERVICES, namespace, name):
            return DONE
        try:
            await self.client.delete_exactly(ENDPOINTS, found)
        except errors.NotFound as error:
            if not errors.is_about(error, name):
                raise
        return DONE
