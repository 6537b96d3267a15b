"""Leader election with a Lease: only one of several managers writes.

Upstream: client-go tools/leaderelection, with its record, timings and event. Two
things differ. The lease is watched, so that a candidate acquires a released lease at
once, and the leader notices at once when another process takes the lease. And
leadership ends by itself, by the monotonic clock, before another candidate may
acquire the lease.
"""

import asyncio
import math
import random
import uuid
from collections.abc import Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from controller_manager.api.coordination.v1 import LEASES, Lease, LeaseSpec
from controller_manager.api.meta import ObjectMeta, resource_version_number
from controller_manager.api.scalars import format_micro_time
from controller_manager.client.events.recorder import NORMAL, EventRecorder
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import (
    BUSY_IDLE_TIMEOUT,
    Client,
    WatchOptions,
)
from controller_manager.client.rest.serializer import Added, Bookmark, Deleted, Modified
from controller_manager.clock import Clock
from controller_manager.observability.defects import Defects, count_nowhere
from controller_manager.observability.logs import Logger
from controller_manager.options.config import LeaderElectionConfig

JITTER: Final = 1.2
"""A wait for the lease lasts 1 to 2.2 retry periods (client-go's JitterFactor)."""

_FIRST_PAUSE: Final = 0.1
"""Seconds until a release is repeated after a conflict; then twice as long."""

_HEALTH_TOLERANCE: Final = 20.0
_VERSION: Final = 8
"""The UUID version of RFC 9562 whose content each program may define."""


def new_identity(host: str, rng: random.Random) -> str:
    """Return the identity of a candidate: ``HOST_UUID``, as upstream.

    The UUID has version 8, upstream's have version 4. So `is_of_this_program` can
    tell whether this program or upstream's manager held the lease.
    """
    number = rng.getrandbits(128)
    number = number & ~(0xF << 76) | _VERSION << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    return f"{host}_{uuid.UUID(int=number)}"


def is_of_this_program(identity: str) -> bool:
    """Tell whether the holder of a lease is this program and not upstream's manager."""
    try:
        return uuid.UUID(identity.rpartition("_")[2]).version == _VERSION
    except ValueError:
        return False


class LeadershipLost(Exception):
    """This process is not the leader any more; the message says why."""


class LeadershipYielded(LeadershipLost):
    """This process gave up the lease, because the API server prefers another one."""


class ElectionMetrics(Protocol):
    """Hooks that an elector calls."""

    def set_leading(self, *, leading: bool) -> None:
        """Set whether this process leads."""

    def slow_path(self) -> None:
        """Count a renewal that had to read the lease first."""


class LeaderElector:
    """One candidate for one lease.

    The lease of another candidate is valid for its duration, counted from the moment at
    which this process *observed* its last change. This process leads until the renew
    deadline, counted from the moment at which it *sent* the last successful renewal.
    The renew deadline is shorter than the lease, so no other process can lead before
    it. Both are measured on the monotonic clock, because wall clocks may differ.
    """

    def __init__(  # noqa: PLR0913 - one for each thing that it reports to
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
        count_defect: Callable[[str], None] = count_nowhere,
        may_lead: Callable[[], bool] = lambda: True,
    ) -> None:
        """Use a client without a rate limit; for `count_defect` see `Defects`.

        While `may_lead` returns False, the lease is neither acquired nor renewed.
        """
        self._defects = Defects(logger, count_defect)
        self._may_lead = may_lead
        self._client = client
        self._config = config
        self.identity = identity
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._metrics = metrics
        self._logger = logger
        self.previous_holder = ""
        """The holder of the lease before this process, empty for none."""
        self._observed: Lease | None = None
        self._observed_at = float("-inf")
        self._leading = False
        self._may_hold = False
        """True if the lease may name this process although it does not lead.

        Then a write of this process got no answer, or one of a server that failed, or
        this process gave up the lease, or was elected and has not led yet.
        """
        self._renewed_at = float("-inf")
        self.may_write_until = float("-inf")
        """The time of the monotonic clock until which this process leads."""
        self._changed = asyncio.Event()
        metrics.set_leading(leading=False)

    @property
    def holder(self) -> str:
        """The last observed holder of the lease, empty for none."""
        return self._observed.spec.holder_identity or "" if self._observed else ""

    @property
    def knows_leader(self) -> bool:
        """True if some process holds the lease, as observed."""
        now = self._clock.monotonic()
        return bool(self.holder) and now < self._lease_expires_at()

    def seconds_left(self) -> float:
        """Return for how many seconds this process leads if no renewal succeeds."""
        return max(0.0, self.may_write_until - self._clock.monotonic())

    def health_problem(self) -> str | None:
        """Return the problem of a leader that neither renews nor stops; else `None`."""
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
            if self._may_lead() and await self._attempt(self._config.renew_deadline):
                break
            await self._wait_to_retry()
        transitions = self._observed.spec.lease_transitions if self._observed else 0
        self._metrics.set_leading(leading=True)
        self._logger.info("Successfully acquired lease", lease=self._key)
        self._record("became leader")
        self._logger.v(2).info("Leading", identity=self.identity, changes=transitions)

    async def renew(self) -> None:
        """Renew the lease for ever; raises LeadershipLost when leadership ends."""
        while True:
            await self._sleep(min(self._config.retry_period, self.seconds_left()))
            # Check before the next attempt, which might take the lease back after
            # another process has taken it.
            self._check_still_leading()
            if self._may_lead():
                await self._attempt(self._attempt_timeout())
            self._check_still_leading()

    async def watch(self) -> None:
        """Watch the lease for ever, so that changes are observed at once.

        If the watch fails or is forbidden, polling alone observes the changes.
        Without a name there is nothing to watch.
        """
        if not self._is_named:
            return
        options = WatchOptions(
            field_selector=f"metadata.name={self._config.resource_name}",
            idle_timeout=BUSY_IDLE_TIMEOUT,
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
                                    self._observe_watched(lease)
                                case Deleted():
                                    self._changed.set()
                                case Bookmark():
                                    pass  # the lease has not changed
            except errors.RequestError as error:
                self._logger.v(4).info("Lease not watched", err=str(error))
            except Exception as error:  # noqa: BLE001 - polling observes changes, too
                self._defects.report("lease", error, "watch")
            if self._clock.monotonic() - started < self._config.lease_duration:
                # The watch ended too early: do not send watches in a fast loop.
                await asyncio.sleep(self._jittered())

    async def release(self) -> None:
        """Release the lease, so that another candidate can acquire it at once.

        This process stops writing before it sends the request. It also tries this if a
        write of the lease got no answer, because that write may have been applied,
        after `LeadershipYielded`, and if the API server has elected it meanwhile. A
        failure is only logged: the lease then expires by itself.
        """
        if not self._leading and not self._may_hold:
            return
        self._stop_leading()
        try:
            async with asyncio.timeout(self._config.renew_deadline):
                await self._release_in_spite_of_conflicts()
        except errors.NotFound:
            self._logger.v(2).info("There is no lease to release", lease=self._key)
        except (errors.RequestError, TimeoutError) as error:
            self._logger.warning("Lease not released", lease=self._key, err=str(error))
        except Exception as error:  # noqa: BLE001 - the lease expires by itself
            self._defects.report("lease", error, "release")
        else:
            self._logger.info("Released lease", lease=self._key)

    async def _release_in_spite_of_conflicts(self) -> None:
        pause = _FIRST_PAUSE
        while not await self._try_release():
            self._logger.v(2).info("Lease changed meanwhile", lease=self._key)
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._config.retry_period)

    async def _try_release(self) -> bool:
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
            preferred_holder=None,
        )
        try:
            await self._client.update(LEASES, msgspec.structs.replace(lease, spec=spec))
        except errors.Conflict:
            return False
        return True

    @property
    def _key(self) -> str:
        return f"{self._config.resource_namespace}/{self._config.resource_name}"

    @property
    def _is_named(self) -> bool:
        return bool(self._config.resource_name and self._config.resource_namespace)

    def _jittered(self) -> float:
        return self._config.retry_period * (1 + self._rng.random() * JITTER)

    async def _wait_to_retry(self) -> None:
        delay = self._jittered()
        if self._is_held():
            # Wait a moment longer than that, so that the lease has surely expired.
            until_end = self._lease_expires_at() - self._clock.monotonic()
            delay = min(delay, until_end + 0.01 + 0.04 * self._rng.random())
        await self._sleep(delay)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    def _attempt_timeout(self) -> float:
        # Half of the deadline, as in client-go: if one request hangs, there is time
        # for another.
        return min(self.seconds_left(), self._config.renew_deadline / 2)

    def _check_still_leading(self) -> None:
        if self._leading and self.seconds_left() > 0:
            return
        if self._leading:
            deadline = self._config.renew_deadline
            why = f"the lease {self._key} was not renewed within {deadline:g} s"
            if not self._may_lead():
                why += ", because the controllers hang"
        else:
            why = f"the lease {self._key} is held by {self.holder or 'nobody'}"
        self._stop_leading()
        # The process ends at once: there is no time to release a lease that it may
        # hold.
        self._may_hold = False
        raise LeadershipLost(why)

    def _record(self, what: str) -> None:
        """Record an event about this process and the lease (RecordEvent)."""
        self._recorder.event(
            LEASES,
            self._observed or Lease(),
            NORMAL,
            "LeaderElection",
            f"{self.identity} {what}",
        )

    def _stop_leading(self) -> None:
        self.may_write_until = float("-inf")
        if self._leading:
            self._record("stopped leading")
        self._leading = False
        self._metrics.set_leading(leading=False)

    async def _attempt(self, timeout: float) -> bool:  # noqa: ASYNC109 - it logs it
        if not self._is_named:
            # Such a request would address all leases; client-go sends none, either.
            why = "the lease must have a name and a namespace"
            self._logger.error("Error retrieving or updating the lease", err=why)
            return False
        try:
            async with asyncio.timeout(timeout):
                return await self._acquire_or_renew()
        except TimeoutError:
            self._logger.warning(
                "No answer about the lease", lease=self._key, seconds=timeout
            )
        except (errors.AlreadyExists, errors.Conflict):
            self._logger.v(2).info(
                "Another process changed the lease first", lease=self._key
            )
        except errors.RequestError as error:
            self._logger.error(
                "Error retrieving or updating the lease",
                lease=self._key,
                err=str(error),
            )
        except Exception as error:  # noqa: BLE001 - the next attempt may succeed
            self._defects.report("lease", error, "attempt")
        return False

    async def _acquire_or_renew(self) -> bool:
        if self._leading and self._observed is not None:
            try:
                return await self._write(self._observed)
            except (errors.Conflict, errors.NotFound):
                # Another client wrote to the lease, perhaps a new leader: read it.
                self._metrics.slow_path()
        try:
            lease = await self._client.get(
                LEASES, self._config.resource_namespace, self._config.resource_name
            )
        except errors.NotFound:
            return await self._take_absent()
        self._observe(lease)
        return await self._take(lease)

    async def _take_absent(self) -> bool:
        return await self._write(None)

    async def _take(self, lease: Lease) -> bool:
        if self._is_held():
            return False
        previous = self.holder
        acquired = await self._write(lease)
        if acquired and previous != self.identity:
            self.previous_holder = previous
        return acquired

    def _observe_watched(self, lease: Lease) -> None:
        """Observe a lease from the watch, unless a newer one is known.

        The watch may be behind the answers to requests. These are always used, even
        if their version is lower: the store may have been restored from a backup.
        """
        if self._observed is not None:
            version = resource_version_number(lease.metadata.resource_version)
            known = resource_version_number(self._observed.metadata.resource_version)
            same_object = lease.metadata.uid == self._observed.metadata.uid
            if same_object and version <= known:
                return
        self._observe(lease)

    def _observe(self, lease: Lease) -> None:
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

    def _lease_expires_at(self) -> float:
        spec = self._observed.spec if self._observed else LeaseSpec()
        seconds = spec.lease_duration_seconds or self._config.lease_duration
        return self._observed_at + seconds

    def _is_held(self) -> bool:
        return (
            self.holder not in ("", self.identity)
            and self._clock.monotonic() < self._lease_expires_at()
        )

    async def _write(self, old: Lease | None) -> bool:
        """Write this identity into the lease; raises Conflict if it has changed.

        Tells whether this process leads now.
        """
        now = format_micro_time(self._clock.now())
        spec = old.spec if old else LeaseSpec()
        holds = spec.holder_identity == self.identity
        transitions = spec.lease_transitions or 0
        if old is not None and not holds:
            transitions += 1
        spec = msgspec.structs.replace(
            spec,
            holder_identity=self.identity,
            # Rounded up: for other candidates it must not expire too early.
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
        self._may_hold = True
        try:
            if old is None:
                stored = await self._client.create(LEASES, lease)
            else:
                stored = await self._client.update(LEASES, lease)
        except errors.APIError as error:
            # After a timeout of the API server, or of a proxy, it may be applied.
            self._may_hold = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
            raise
        self._may_hold = False
        self._observe(stored)
        if self.holder != self.identity:
            return False  # another process took it before the answer arrived
        self._leading = True
        self._renewed_at = sent_at
        self.may_write_until = sent_at + self._config.renew_deadline
        return True
