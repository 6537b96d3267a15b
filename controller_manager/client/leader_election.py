"""Leader election with a Lease: of several managers, one writes.

Upstream: client-go tools/leaderelection, with its record, timings and event.
On top of it the lease is watched, so that a released one is taken at once and
a stolen one is noticed at once; and the right to write ends by itself, by the
monotonic clock, before the lease may be taken by another.
"""

import asyncio
import math
import random
import uuid
from contextlib import aclosing
from typing import Final, Protocol

import msgspec

from controller_manager.api.coordination.v1 import LEASES, Lease, LeaseSpec
from controller_manager.api.meta import ObjectMeta, resource_version_number
from controller_manager.api.times import format_micro_time
from controller_manager.client.client import Client, WatchOptions
from controller_manager.client.errors import (
    AlreadyExists,
    APIError,
    Conflict,
    NotFound,
    ProtocolError,
    TransportError,
)
from controller_manager.client.events import NORMAL, EventRecorder
from controller_manager.client.watch import Added, Bookmark, Deleted, Modified
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.options.config import LeaderElectionConfig

JITTER: Final = 1.2
"""Waits for the lease last 1 to 2.2 retry periods (client-go's JitterFactor)."""

_HEALTH_TOLERANCE: Final = 20.0
_VERSION: Final = 8
"""The version of RFC 9562 for UUIDs of a program's own making."""


def new_identity(host: str, rng: random.Random) -> str:
    """Return who a candidate is: ``HOST_UUID``, as upstream has it.

    The UUID is of version 8, where upstream's are of version 4: so it can be told
    whether the lease was held by a manager of this kind.
    """
    number = rng.getrandbits(128)
    number = number & ~(0xF << 76) | _VERSION << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    return f"{host}_{uuid.UUID(int=number)}"


def is_of_this_program(identity: str) -> bool:
    """Tell whether a holder of a lease is a manager of this kind."""
    try:
        return uuid.UUID(identity.rpartition("_")[2]).version == _VERSION
    except ValueError:
        return False


class LeadershipLost(Exception):  # noqa: N818 - an event, not an error
    """This process does not lead any more; the message says why."""


class ElectionMetrics(Protocol):
    """Hooks that an elector calls."""

    def leads(self, *, leading: bool) -> None:
        """Note whether this process leads."""

    def slow_path(self) -> None:
        """Count a renewal that had to read the lease first."""


class LeaderElector:
    """One candidate for one lease.

    The lease of another is respected for as long as it says, counted from the
    moment at which its last change was *seen*, on the monotonic clock: wall
    clocks may differ at will. Ours is counted from the moment at which the
    last successful renewal was *sent*. Leading ends after the renew deadline,
    which is shorter than the lease, so that nobody else can lead by then.
    """

    def __init__(
        self,
        client: Client,
        config: LeaderElectionConfig,
        identity: str,
        *,
        clock: Clock,
        rng: random.Random,
        recorder: EventRecorder,
        metrics: ElectionMetrics,
        logger: Logger,
    ) -> None:
        """Take the client, which should have no rate limit, and who this is."""
        self._client = client
        self._config = config
        self.identity = identity
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._metrics = metrics
        self._logger = logger
        self.taken_from = ""
        """Who held the lease before us, empty for nobody."""
        self._observed: Lease | None = None
        self._observed_at = float("-inf")
        self._leading = False
        self._unanswered = False
        """Whether a write of ours may have been applied without our knowing."""
        self._renewed_at = float("-inf")
        self._changed = asyncio.Event()
        metrics.leads(leading=False)

    @property
    def is_leader(self) -> bool:
        """Whether this process leads now."""
        return self.seconds_left() > 0

    @property
    def holder(self) -> str:
        """Who was last seen to hold the lease, empty for nobody."""
        return self._observed.spec.holder_identity or "" if self._observed else ""

    def seconds_left(self) -> float:
        """Return for how long writes may go on if no renewal succeeds."""
        if not self._leading:
            return 0.0
        ends = self._renewed_at + self._config.renew_deadline
        return max(0.0, ends - self._clock.monotonic())

    def health_problem(self) -> str | None:
        """Return what is wrong: a leader that neither renews nor gives up."""
        limit = self._config.lease_duration + _HEALTH_TOLERANCE
        if self._leading and self._clock.monotonic() - self._renewed_at > limit:
            return (
                f"failed election to renew leadership on lease "
                f"{self._config.resource_name}"
            )
        return None

    async def acquire(self) -> None:
        """Return once this process leads."""
        self._logger.info("Attempting to acquire leader lease", lease=self._key)
        while True:
            self._changed.clear()
            if await self._attempt(self._config.renew_deadline):
                break
            await self._wait_for_a_chance()
        transitions = self._observed.spec.lease_transitions if self._observed else 0
        self._metrics.leads(leading=True)
        self._logger.info("Successfully acquired lease", lease=self._key)
        self._recorder.event(
            LEASES,
            self._observed or Lease(),
            NORMAL,
            "LeaderElection",
            f"{self.identity} became leader",
        )
        self._logger.v(2).info("Leading", identity=self.identity, changes=transitions)

    async def hold(self) -> None:
        """Renew for ever; raises LeadershipLost once this process leads no more."""
        while True:
            await self._sleep(min(self._config.retry_period, self.seconds_left()))
            # Before another try, which might take the lease back from a thief.
            self._check_still_leading()
            await self._attempt(self._budget())
            self._check_still_leading()

    async def watch(self) -> None:
        """Follow the lease, so that changes are seen at once; for ever.

        Without it (the watch may fail or be forbidden) polling goes on.
        """
        options = WatchOptions(
            field_selector=f"metadata.name={self._config.resource_name}"
        )
        while True:
            started = self._clock.monotonic()
            stream = self._client.watch(
                LEASES, self._config.resource_namespace, options
            )
            try:
                async with aclosing(stream):
                    async for batch in stream:
                        for event in batch:
                            match event:
                                case Added(object=lease) | Modified(object=lease):
                                    self._notice(lease)
                                case Deleted():
                                    self._changed.set()
                                case Bookmark():
                                    pass  # nothing about the lease
            except (APIError, TransportError, ProtocolError) as error:
                self._logger.v(4).info("Lease not watched", err=str(error))
            if self._clock.monotonic() - started < self._config.lease_duration:
                # No usual end: whoever ends watches early must not be hammered.
                await asyncio.sleep(self._jittered())

    async def release(self) -> None:
        """Give the lease back if we hold it, so that another may take it at once.

        Writing ends before the request is sent. A lease whose taking was cut
        short may be ours, too. A failure is logged only: the lease then ends by
        itself.
        """
        if not self._leading and not self._unanswered:
            return
        self._stop_leading()
        try:
            async with asyncio.timeout(self._config.renew_deadline):
                while not await self._give_back():
                    self._logger.v(2).info("Lease changed meanwhile", lease=self._key)
        except NotFound:
            self._logger.v(2).info("There is no lease to release", lease=self._key)
        except (APIError, TransportError, ProtocolError, TimeoutError) as error:
            self._logger.warning("Lease not released", lease=self._key, err=str(error))
        else:
            self._logger.info("Released lease", lease=self._key)

    async def _give_back(self) -> bool:
        """Release the lease as it is now; tell if it is nobody's or another's."""
        lease = await self._client.get(
            LEASES, self._config.resource_namespace, self._config.resource_name
        )
        if lease.spec.holder_identity != self.identity:
            return True
        now = format_micro_time(self._clock.now())
        spec = msgspec.structs.replace(
            lease.spec,
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
        )
        try:
            await self._client.update(LEASES, msgspec.structs.replace(lease, spec=spec))
        except Conflict:
            return False
        return True

    @property
    def _key(self) -> str:
        return f"{self._config.resource_namespace}/{self._config.resource_name}"

    def _jittered(self) -> float:
        return self._config.retry_period * (1 + self._rng.random() * JITTER)

    async def _wait_for_a_chance(self) -> None:
        """Wait a retry period, until the lease ends, or until it changes."""
        delay = self._jittered()
        if self._is_held():
            # A moment later than that, or it would be found held once more.
            until_end = self._lease_ends_at() - self._clock.monotonic()
            delay = min(delay, until_end + 0.01 + 0.04 * self._rng.random())
        await self._sleep(delay)

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but no longer than until the lease changes hands."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    def _budget(self) -> float:
        # Half of the deadline, as client-go's client has it, so that one
        # request that hangs leaves time for another.
        return min(self.seconds_left(), self._config.renew_deadline / 2)

    def _check_still_leading(self) -> None:
        if self._leading and self.seconds_left() > 0:
            return
        if self._leading:
            deadline = self._config.renew_deadline
            why = f"the lease {self._key} was not renewed within {deadline:g} s"
        else:
            why = f"the lease {self._key} is held by {self.holder or 'nobody'}"
        self._stop_leading()
        raise LeadershipLost(why)

    def _stop_leading(self) -> None:
        self._leading = False
        self._metrics.leads(leading=False)

    async def _attempt(self, budget: float) -> bool:
        """Try to take or renew the lease in `budget` seconds; tell if we have it."""
        try:
            async with asyncio.timeout(budget):
                return await self._take_or_renew()
        except TimeoutError:
            self._logger.warning(
                "No answer about the lease", lease=self._key, seconds=budget
            )
        except (AlreadyExists, Conflict):
            self._logger.v(2).info("Another was faster", lease=self._key)
        except (APIError, TransportError, ProtocolError) as error:
            self._logger.error(
                "Error retrieving or updating the lease",
                lease=self._key,
                err=str(error),
            )
        return False

    async def _take_or_renew(self) -> bool:
        if self._leading and self._observed is not None:
            try:
                return await self._write(self._observed)
            except (Conflict, NotFound):
                # Somebody else wrote to it: an edit, or a theft. Look.
                self._metrics.slow_path()
        try:
            lease = await self._client.get(
                LEASES, self._config.resource_namespace, self._config.resource_name
            )
        except NotFound:
            return await self._write(None)
        self._see(lease)
        if self._is_held():
            return False
        former = self.holder
        taken = await self._write(lease)
        if taken and former != self.identity:
            self.taken_from = former
        return taken

    def _notice(self, lease: Lease) -> None:
        """Take a lease from the watch, which may lag behind our own requests.

        Those are answered with what is stored, and believed even if versions
        went back: the store may have been restored from a backup.
        """
        if self._observed is not None:
            version = resource_version_number(lease.metadata.resource_version)
            known = resource_version_number(self._observed.metadata.resource_version)
            same_object = lease.metadata.uid == self._observed.metadata.uid
            if same_object and version <= known:
                return
        self._see(lease)

    def _see(self, lease: Lease) -> None:
        """Remember the lease as it is, and since when it has been so."""
        before = self.holder
        if self._observed is None or lease.spec != self._observed.spec:
            self._observed_at = self._clock.monotonic()
        self._observed = lease
        if self.holder != before:
            self._changed.set()
            if self.holder:
                self._logger.v(2).info("New leader", identity=self.holder)
        if self._leading and self.holder != self.identity:
            self._stop_leading()
            self._changed.set()

    def _lease_ends_at(self) -> float:
        spec = self._observed.spec if self._observed else LeaseSpec()
        seconds = spec.lease_duration_seconds or self._config.lease_duration
        return self._observed_at + seconds

    def _is_held(self) -> bool:
        """Tell whether another holds the lease, as far as we can know."""
        return (
            self.holder not in ("", self.identity)
            and self._clock.monotonic() < self._lease_ends_at()
        )

    async def _write(self, old: Lease | None) -> bool:
        """Write our name into the lease; raises Conflict if it has changed."""
        now = format_micro_time(self._clock.now())
        spec = old.spec if old else LeaseSpec()
        holds = spec.holder_identity == self.identity
        transitions = spec.lease_transitions or 0
        if old is not None and not holds:
            transitions += 1
        spec = msgspec.structs.replace(
            spec,
            holder_identity=self.identity,
            # Rounded up: others must not believe that it ends before it does.
            lease_duration_seconds=math.ceil(self._config.lease_duration),
            acquire_time=spec.acquire_time if holds else now,
            renew_time=now,
            lease_transitions=transitions,
        )
        metadata = (
            old.metadata
            if old is not None
            else ObjectMeta(
                name=self._config.resource_name,
                namespace=self._config.resource_namespace,
            )
        )
        sent_at = self._clock.monotonic()
        lease = Lease(metadata=metadata, spec=spec)
        self._unanswered = True
        try:
            if old is None:
                stored = await self._client.create(LEASES, lease)
            else:
                stored = await self._client.update(LEASES, lease)
        except APIError:
            self._unanswered = False
            raise
        self._unanswered = False
        self._see(stored)
        if self.holder != self.identity:
            return False  # it was taken away while the answer was on its way
        self._leading = True
        self._renewed_at = sent_at
        return True
