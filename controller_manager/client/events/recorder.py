"""The event recorder, which writes events in the background: no sync waits for it."""

import asyncio
import random
import re
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, Protocol

from controller_manager.api.core.v1 import EVENTS, Event, EventSource, ObjectReference
from controller_manager.api.meta import AnyResource, KubeObject, ObjectMeta, key_of
from controller_manager.api.scalars import format_time
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client, PatchType
from controller_manager.clock import Clock
from controller_manager.observability.defects import Defects, count_nowhere
from controller_manager.observability.logs import Logger

from .correlator import Correlated, Correlator, Key

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

_MOST_WAITING: Final = 1000
_MAX_TRIES: Final = 12
_RETRY_DELAY: Final = 10.0

_MAX_SUBDOMAIN: Final = 253
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def is_dns_subdomain(name: str) -> bool:
    """Tell whether `name` is a DNS subdomain (IsDNS1123Subdomain).

    Most kinds require such a name. Names of roles may have more characters, and names
    of objects of an aggregated API any length.
    """
    return len(name) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


class EventRecorder(Protocol):
    """Records events, by which a controller informs users of its actions."""

    def event(
        self,
        resource: AnyResource,
        obj: KubeObject,
        event_type: str,
        reason: str,
        message: str,
    ) -> None:
        """Record an event about `obj`; return at once and never fail."""


class EventBroadcaster:
    """Writes the events of one component in the background.

    Events are correlated as in client-go (see `client.events.correlator`) when they are
    recorded. So those that are too frequent take no room, and those that increase the
    count of an event that waits are written with it. Up to 1,000 events wait; then new
    ones are dropped. They are written one after the other.

    If the API server does not answer, an event is tried twelve times, ten seconds
    apart; if the server rejects an event, it is dropped and logged. So is an event that
    causes an unexpected exception.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        clock: Clock,
        rng: random.Random,
        logger: Logger,
        count_defect: Callable[[str], None] = count_nowhere,
    ) -> None:
        """`component` is the name that reports; for `count_defect` see `Defects`."""
        self._defects = Defects(logger, count_defect)
        self._client = client
        self._source = EventSource(component=component)
        self._clock = clock
        self._rng = rng
        self._logger = logger
        self._correlator = Correlator(clock)
        self._waiting: OrderedDict[Key, Correlated] = OrderedDict()
        self._dropped = 0
        self._recorded = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()
        self._last_name = 0

    def event(
        self,
        resource: AnyResource,
        obj: KubeObject,
        event_type: str,
        reason: str,
        message: str,
    ) -> None:
        """Record an event about `obj`; return at once and never fail."""
        try:
            self._record(resource, obj, event_type, reason, message)
        except Exception as error:  # noqa: BLE001 - a sync must not fail by its event
            self._defects.report("events", error, "record", reason=reason)

    def _record(
        self,
        resource: AnyResource,
        obj: KubeObject,
        event_type: str,
        reason: str,
        message: str,
    ) -> None:
        event = self._make(resource, obj, event_type, reason, message)
        involved = event.involved_object
        self._logger.v(3).info(
            "Event occurred",
            object=key_of(obj),
            fieldPath=involved.field_path,
            kind=involved.kind,
            apiVersion=involved.api_version,
            type=event_type,
            reason=reason,
            message=message,
        )
        if (correlated := self._correlator.correlate(event)) is not None:
            self._enqueue(correlated)

    def _enqueue(self, correlated: Correlated) -> None:
        """Let a write wait; one of the same event that waits already has its place.

        This saves a third of all requests when many pods are created.
        """
        waiting = self._waiting.get(correlated.key)
        if waiting is not None and waiting.patch is None:
            # It is not created yet, so it is created with the new count.
            correlated = Correlated(correlated.event, None, correlated.key)
        elif waiting is None and len(self._waiting) >= _MOST_WAITING:
            self._drop(correlated)
            return
        self._waiting[correlated.key] = correlated
        self._recorded.set()
        self._written.clear()

    def _drop(self, correlated: Correlated) -> None:
        if not self._dropped:
            reason = correlated.event.reason
            self._logger.error("Event dropped, too many wait", reason=reason)
        self._dropped += 1

    def _make(
        self,
        resource: AnyResource,
        obj: KubeObject,
        event_type: str,
        reason: str,
        message: str,
    ) -> Event:
        now, metadata = self._clock.now(), obj.metadata
        timestamp = format_time(now)
        return Event(
            metadata=ObjectMeta(
                name=self._name_of_event(metadata.name, now),
                namespace=metadata.namespace or "default",
            ),
            involved_object=ObjectReference(
                kind=resource.kind,
                namespace=metadata.namespace,
                name=metadata.name,
                uid=metadata.uid,
                api_version=resource.api_version,
                resource_version=metadata.resource_version,
            ),
            reason=reason,
            message=message,
            source=self._source,
            first_timestamp=timestamp,
            last_timestamp=timestamp,
            count=1,
            type=event_type,
            reporting_component=self._source.component,
        )

    def _name_of_event(self, name: str, now: datetime) -> str:
        """Return a new name for an event of now about the object called `name`.

        It has the object's name and the time, if the API server accepts that, else it
        is a UUID (client-go tools/record/util, GenerateEventName).
        """
        # It has nanoseconds; two events of one moment need two names.
        nanoseconds = int(now.timestamp() * 1e6) * 1000
        self._last_name = max(self._last_name + 1, nanoseconds)
        dated = f"{name}.{self._last_name:x}"
        if is_dns_subdomain(dated):
            return dated
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            await self._recorded.wait()
            while self._waiting:
                _, correlated = self._waiting.popitem(last=False)
                await self._deliver_or_drop(correlated)
            self._recorded.clear()
            self._written.set()
            if self._dropped > 1:
                self._logger.error(
                    "Events were dropped, too many waited", events=self._dropped
                )
            self._dropped = 0

    async def flush(self) -> None:
        """Wait until all events recorded so far are written or dropped."""
        await self._written.wait()

    async def _deliver_or_drop(self, correlated: Correlated) -> None:
        try:
            await self._deliver(correlated)
        except Exception as error:  # noqa: BLE001 - it concerns this event only
            reason = correlated.event.reason
            self._defects.report("events", error, "write", reason=reason)

    async def _deliver(self, correlated: Correlated) -> None:
        for attempt in range(_MAX_TRIES):
            try:
                stored = await self._write(correlated)
            except (errors.APIError, errors.InvalidName) as error:
                self._log_rejection(correlated, error)
                return
            except (errors.TransportError, errors.ProtocolError) as error:
                self._logger.warning("Unable to write event", err=str(error))
                # The first delay is random, so that restarted managers spread.
                factor = self._rng.random() if attempt == 0 else 1.0
                await asyncio.sleep(_RETRY_DELAY * factor)
            else:
                self._correlator.update_state(correlated, stored)
                return
        self._logger.error(
            "Event dropped, too many attempts", reason=correlated.event.reason
        )

    def _log_rejection(
        self, correlated: Correlated, error: errors.APIError | errors.InvalidName
    ) -> None:
        expected = isinstance(
            error, errors.AlreadyExists
        ) or errors.is_namespace_terminating(error)
        logger = self._logger.v(5) if expected else self._logger
        logger.error(
            "Server rejected event (will not retry!)",
            reason=correlated.event.reason,
            err=str(error),
        )

    async def _write(self, correlated: Correlated) -> Event:
        event = correlated.event
        if correlated.patch is not None:
            metadata = event.metadata
            patching: Awaitable[Event] = self._client.patch(
                EVENTS,
                metadata.namespace,
                metadata.name,
                correlated.patch,
                PatchType.STRATEGIC,
            )
            try:
                return await patching
            except errors.NotFound:
                pass  # it has expired (events live an hour): create it again
        return await self._client.create(EVENTS, event)
