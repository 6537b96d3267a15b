"""Monitors: watch every resource that quotas may count (resource_quota_monitor.go).

Among them are claims to devices. Their usage depends on device classes, and on the pods
that they were made for (addExtendedResourceQuota and getVerifiedPodUsage of
pkg/quota/v1/evaluator/core/resource_claims.go).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.dynamicresources.v1 import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    DeviceClass,
    ResourceClaim,
)
from controller_manager.api.meta import AnyResource, KubeObject
from controller_manager.client.discovery.resources import Discovery, ServedResource
from controller_manager.control.all_resources import (
    DEFINITIONS,
    SupersededVersions,
    definitions_handler,
)
from controller_manager.control.quota.device_claims import pod_of, stands_for
from controller_manager.control.quota.evaluators import (
    Evaluator,
    count_evaluator,
    device_claim_evaluator,
)
from controller_manager.control.quota.resources import (
    NOTHING,
    Amounts,
    is_counted,
    names_of_count,
)
from controller_manager.informers.dispatch import Handler, Registration
from controller_manager.informers.factory import ControllerInformers
from controller_manager.informers.informer import SharedInformer
from controller_manager.informers.store import Index, Lister, Store
from controller_manager.observability.logs import Logger
from controller_manager.runtime.worker import Turns

from .usage import CachedObjects, Source, Tally

_CLAIMS: Final = (RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.plural)
_CLASSES: Final = (DEVICE_CLASSES.group, DEVICE_CLASSES.plural)

VERBS: Final = ("create", "list", "watch", "delete")
"""The verbs that a counted resource must have."""

Name = tuple[str, str]
"""Group and plural name of a resource."""


def _uid_of_pod(claim: ResourceClaim) -> Iterable[str]:
    uid = pod_of(claim)[1]
    return (uid,) if uid else ()


_BY_POD: Final = Index(
    "extendedResourceClaimPod",
    _uid_of_pod,
    lambda old, new: pod_of(old) == pod_of(new),
)
"""Claims for the extended resources of pods, by the uid of the pod."""


class Devices:
    """The extended resources of device classes, and the pods that claims are for."""

    def __init__(self, pods: Lister[Pod], evaluator: Evaluator) -> None:
        self.extended_resources: dict[str, str] = {}
        """The extended resource that each device class names, "" for none."""
        self._pods = pods
        self._evaluator = evaluator
        self._claims: Store[ResourceClaim] | None = None

    def use_claims(self, claims: Store[ResourceClaim]) -> None:
        """Take the cache of claims, once they are watched."""
        claims.add_index(_BY_POD)
        self._claims = claims

    def handler(self) -> Handler[DeviceClass]:
        """Return the handler that notes the resources of device classes."""

        def seen(device_class: DeviceClass) -> None:
            resource = device_class.spec.extended_resource_name or ""
            self.extended_resources[device_class.metadata.name] = resource

        def gone(device_class: DeviceClass) -> None:
            self.extended_resources.pop(device_class.metadata.name, None)

        return Handler(on_add=seen, on_update=lambda _, new: seen(new), on_delete=gone)

    def charged_to_pod(self, claim: ResourceClaim, now: datetime) -> Amounts:
        """Return the usage of the pod for which a claim was made.

        A pod has one such claim; if there are several, only the first has this pod.
        """
        name, uid = pod_of(claim)
        pod = self._pods.get(claim.metadata.namespace, name) if name else None
        claims = self._claims.by_index(_BY_POD, uid) if self._claims is not None else ()
        if pod and pod.metadata.uid == uid and stands_for(claim, pod, claims):
            return self._evaluator.usage(pod, now)
        return NOTHING


class _Monitor(Struct, frozen=True):
    resource: AnyResource
    informer: SharedInformer[Any]
    registration: Registration[Any]
    source: Source | None

    @property
    def is_synced(self) -> bool:
        """True once all objects and their usage are known."""
        return (self.source or self.registration).is_synced


class Monitors:
    """Watches each resource that discovery lists, by metadata.

    The informers are shared with the garbage collector's monitors. `handler_of` returns
    the handler for the objects of a source; `served_changes` is called when the API
    server may serve other resources soon. `devices` receives device classes; if it is
    None, classes have no extended resources. The resources in `others` are not watched
    here: the controller has informers for them.
    """

    def __init__(
        self,
        informers: ControllerInformers,
        handler_of: Callable[[Source], Handler[Any]],
        served_changes: Callable[[], None],
        turns: Turns,
        devices: Devices | None,
        logger: Logger,
        others: frozenset[Name],
    ) -> None:
        self._informers = informers
        self._handler_of = handler_of
        self._served_changes = served_changes
        self._turns = turns
        self._devices = devices
        self._logger = logger
        self._others = others
        self._monitors: dict[Name, _Monitor] = {}
        self._reported: set[Name] = set()
        self._versions = SupersededVersions()
        self._unlisted: Source | None = None
        if devices is not None:
            # Until claims to devices are discovered they are not listed: quotas may
            # charge pods for the same resources, so the usage would be too small.
            unknown = device_claim_evaluator(lambda: None, lambda _, __: {})
            self._unlisted = Tally(unknown, ())
        informers.read_monitored(RESOURCE_CLAIMS)
        informers.read_monitored(DEVICE_CLASSES)

    def sources(self) -> Iterator[Source]:
        """Yield the sources of watched resources, and of claims not discovered yet."""
        for each in self._monitors.values():
            if each.source is not None:
                yield each.source
        if self._unlisted is not None:
            yield self._unlisted

    def unsynced(self) -> list[str]:
        """Return the resources that are not synced yet."""
        return [
            each.resource.group_resource
            for each in self._monitors.values()
            if not each.is_synced
        ]

    def newly_synced(self) -> bool:
        """Tell whether a source has become synced since the last call."""
        synced = {name for name, each in self._monitors.items() if each.is_synced}
        new = synced - self._reported
        self._reported |= new
        return any(self._monitors[name].source is not None for name in new)

    async def wait_for_sync(self) -> None:
        """Wait until all watched resources are synced."""
        for each in list(self._monitors.values()):
            await each.registration.wait_for_sync()

    def adjust(self, discovery: Discovery, now: float) -> None:
        """Watch the served resources and no others.

        A resource stays watched while its group cannot be discovered. Its version
        is kept as long as it is served, or until another one has been the preferred
        one for a minute. `now` is a monotonic time in seconds.
        """
        versions = {(each.api_version, each.plural) for each in discovery.resources}
        preferred = {
            (each.group, each.plural): each for each in discovery.preferred(*VERBS)
        }
        for name, monitor in list(self._monitors.items()):
            version, successor = monitor.resource.api_version, preferred.get(name)
            latest = successor.api_version if successor else None
            is_old = self._versions.supersedes(name, version, latest, now)
            is_served = (version, name[1]) in versions
            if is_old or not (is_served or discovery.is_unread(version)):
                self._stop(name, monitor)
        for name, served in preferred.items():
            if name not in self._monitors and self._is_wanted(served):
                self._start(name, served)
        is_unread = discovery.is_unread(RESOURCE_CLAIMS.api_version)
        if _CLAIMS in self._monitors or not is_unread:
            self._unlisted = None

    def _is_wanted(self, served: ServedResource) -> bool:
        name = (served.group, served.plural)
        if name in (DEFINITIONS, _CLASSES):
            return name == DEFINITIONS or self._devices is not None
        return served.namespaced and name not in self._others and is_counted(*name)

    def _start(self, name: Name, served: ServedResource) -> None:
        resource = served.metadata_resource()
        informer = self._informers.monitor(resource)
        source, registration = self._registered(informer)
        self._monitors[name] = _Monitor(resource, informer, registration, source)
        self._logger.v(2).info("Counting", resource=resource.group_resource)

    def _registered(
        self, informer: SharedInformer[Any]
    ) -> tuple[Source | None, Registration[Any]]:
        resource = informer.resource
        group, plural = resource.group, resource.plural
        if (group, plural) == DEFINITIONS:
            handler = definitions_handler(self._served_changes)
            return None, informer.add_handler(handler)
        if resource == DEVICE_CLASSES and self._devices is not None:
            return None, informer.add_handler(self._devices.handler())
        if resource == RESOURCE_CLAIMS:
            return self._claims_registered(informer)
        tally = Tally(count_evaluator(group, plural), names_of_count(group, plural))
        tally.registration = informer.add_handler(self._counting(tally))
        return tally, tally.registration

    def _counting(self, tally: Tally) -> Handler[Any]:
        """Return a handler that counts objects, and ignores their updates."""
        handler = self._handler_of(tally)

        def added(obj: KubeObject) -> None:
            tally.seen(obj)
            handler.on_add(obj)

        def gone(obj: KubeObject) -> None:
            tally.gone(obj)
            handler.on_delete(obj)

        return Handler(on_add=added, on_delete=gone)

    def _claims_registered(
        self, informer: SharedInformer[Any]
    ) -> tuple[Source, Registration[Any]]:
        evaluator = device_claim_evaluator(dict, lambda _, __: {})
        if (devices := self._devices) is not None:
            devices.use_claims(informer.store)
            evaluator = device_claim_evaluator(
                self._known_classes, devices.charged_to_pod
            )

        def synced() -> bool:
            return registration.is_synced and self._known_classes() is not None

        source = CachedObjects(evaluator, informer.store, self._turns, synced)
        registration = informer.add_handler(self._handler_of(source))
        return source, registration

    def _known_classes(self) -> Mapping[str, str] | None:
        """Return the extended resource of each class, `None` if they are not listed."""
        monitor = self._monitors.get(_CLASSES)
        if monitor and not monitor.is_synced:
            return None
        return self._devices.extended_resources if self._devices else {}

    def _stop(self, name: Name, monitor: _Monitor) -> None:
        del self._monitors[name]
        self._reported.discard(name)
        self._versions.forget(name)
        monitor.informer.remove_handler(monitor.registration)
        self._informers.stop_monitor(monitor.resource)
        self._logger.v(2).info(
            "Stopped counting", resource=monitor.resource.group_resource
        )
