"""Leader election in which the API server chooses the holder of the lease.

This process offers itself by a LeaseCandidate, and answers when the API server asks
whether it is still there. Upstream: client-go tools/leaderelection (1.36), its
leasecandidate.go and its coordinated mode, behind the feature gate
CoordinatedLeaderElection.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from controller_manager.api.coordination.v1 import Lease, LeaseSpec
from controller_manager.api.coordination.v1beta1 import (
    LEASE_CANDIDATES,
    LeaseCandidate,
    LeaseCandidateSpec,
)
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.scalars import format_micro_time, parse_time
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client, WatchOptions
from controller_manager.client.rest.serializer import Added, Bookmark, Deleted, Modified
from controller_manager.clock import Clock
from controller_manager.observability.defects import Defects, count_nowhere
from controller_manager.observability.logs import Logger
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.version import KUBERNETES_VERSION

from .leader_election import LeaderElector, LeadershipYielded

STRATEGY: Final = "OldestEmulationVersion"
"""The candidate that emulates the oldest version is elected."""

RENEWAL: Final = 300.0
"""Seconds between two renewals that no ping asks for (upstream's requeueInterval)."""

_FIRST_RETRY: Final = 0.1
_LAST_RETRY: Final = 30.0
_ATTEMPT: Final = 5.0
"""Seconds that one renewal may take. An election waits five for the candidates."""

_ELECTION: Final = 30.0
"""Seconds after which an API server that holds elections has elected a candidate."""

_MICROSECOND: Final = timedelta(microseconds=1)

_REMEDY: Final = (
    "start the API server with --feature-gates=CoordinatedLeaderElection=true and "
    "--runtime-config=coordination.k8s.io/v1beta1=true, or disable the gate here"
)


class Candidacy:
    """Keeps the LeaseCandidate of this process, and answers the API server's pings.

    Its name is the identity of the candidate. The API server deletes it when it has
    not been renewed for half an hour.
    """

    def __init__(  # noqa: PLR0913 - one for each thing that it asks
        self,
        client: Client,
        config: LeaderElectionConfig,
        identity: str,
        *,
        emulated_version: str,
        knows_leader: Callable[[], bool],
        clock: Clock,
        logger: Logger,
        count_defect: Callable[[str], None] = count_nowhere,
        may_lead: Callable[[], bool] = lambda: True,
    ) -> None:
        """`emulated_version` is a minor version such as ``1.36``.

        `knows_leader` tells whether some process holds the lease. While `may_lead`
        returns False, no ping is answered, so the API server elects another process.
        """
        self._may_lead = may_lead
        self._client = client
        self._namespace = config.resource_namespace
        self._lease = f"{config.resource_namespace}/{config.resource_name}"
        self._name = identity
        self._spec = LeaseCandidateSpec(
            lease_name=config.resource_name,
            binary_version=KUBERNETES_VERSION.removeprefix("v"),
            emulation_version=f"{emulated_version}.0",
            strategy=STRATEGY,
        )
        self._knows_leader = knows_leader
        self._clock = clock
        self._logger = logger
        self._defects = Defects(logger, count_defect)
        self._wanted = asyncio.Event()
        """Set when the object must be renewed or made at once."""
        self._made = asyncio.Event()
        """Set once the object is there."""
        self._problem = "it is not made yet"

    def problem(self) -> str | None:
        """Return why this process is no candidate, `None` once it is one."""
        return f"no lease candidate: {self._problem}" if self._problem else None

    async def run(self) -> None:
        """Make the object and renew it, for ever; no failure ends this."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(), name="lease-candidate-watch")
            tasks.create_task(self._warn_without_election(), name="lease-election")
            await self._keep()

    async def _keep(self) -> None:
        retry = _FIRST_RETRY
        while True:
            self._wanted.clear()
            if await self._attempt():
                retry = _FIRST_RETRY
                await self._wait(RENEWAL)
            else:
                await self._wait(retry)
                retry = min(2 * retry, _LAST_RETRY)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def _attempt(self) -> bool:
        if not self._may_lead():
            self._problem = "the controllers hang"
            return False
        try:
            async with asyncio.timeout(_ATTEMPT):
                await self._renew_or_create()
        except errors.NotFound as error:
            self._failed(f"the API server serves no lease candidates ({error})")
        except (errors.AlreadyExists, errors.Conflict) as error:
            # The object is there, so this process is a candidate: try again soon.
            self._logger.v(2).info("Lease candidate changed meanwhile", err=str(error))
        except errors.RequestError as error:
            self._failed(str(error))
        except TimeoutError:
            self._failed(f"no answer within {_ATTEMPT:g} s")
        except Exception as error:  # noqa: BLE001 - the next attempt may succeed
            self._problem = repr(error)
            self._defects.report("lease", error, "candidate")
        else:
            self._problem = ""
            self._made.set()
            return True
        return False

    async def _renew_or_create(self) -> None:
        now = self._clock.now()
        try:
            found = await self._client.get(
                LEASE_CANDIDATES, self._namespace, self._name
            )
        except errors.NotFound:
            metadata = ObjectMeta(name=self._name, namespace=self._namespace)
            spec = replace(self._spec, renew_time=format_micro_time(now))
            await self._client.create(
                LEASE_CANDIDATES, LeaseCandidate(metadata=metadata, spec=spec)
            )
            self._logger.v(2).info("Created lease candidate", name=self._name)
            return
        if found.spec.ping_time:
            # The clock of the API server may be ahead. An earlier time is no answer,
            # and another renewal would follow at once, for ever.
            now = max(now, parse_time(found.spec.ping_time) + _MICROSECOND)
        spec = replace(found.spec, renew_time=format_micro_time(now))
        await self._client.update(LEASE_CANDIDATES, replace(found, spec=spec))

    def _failed(self, why: str) -> None:
        if why != self._problem:
            self._logger.warning(
                "This process is no candidate for the lease, so it cannot lead",
                lease=self._lease,
                err=why,
                remedy=_REMEDY,
            )
        self._problem = why

    async def _watch(self) -> None:
        """Pings are answered at once."""
        options = WatchOptions(field_selector=f"metadata.name={self._name}")
        pause = _FIRST_RETRY
        while True:
            began = self._clock.monotonic()
            stream = self._client.watch(LEASE_CANDIDATES, self._namespace, options)
            try:
                async with aclosing(stream):
                    async for batch in stream:
                        for event in batch:
                            self._take(event)
            except errors.RequestError as error:
                self._logger.v(4).info("Lease candidate not watched", err=str(error))
            except Exception as error:  # noqa: BLE001 - the next watch may work
                self._defects.report("lease", error, "candidate-watch")
            if self._clock.monotonic() - began >= _LAST_RETRY:
                pause = _FIRST_RETRY  # the watch did not end too early
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_RETRY)

    def _take(self, event: object) -> None:
        match event:
            case Added(object=candidate) | Modified(object=candidate):
                if _is_pinged(candidate.spec):
                    self._wanted.set()
            case Deleted():
                self._wanted.set()
            case Bookmark():
                pass  # the object has not changed

    async def _warn_without_election(self) -> None:
        await self._made.wait()
        await asyncio.sleep(_ELECTION)
        if not self._knows_leader():
            self._logger.warning(
                "The API server elects no leader",
                lease=self._lease,
                seconds=_ELECTION,
                remedy=_REMEDY,
            )


def _is_pinged(spec: LeaseCandidateSpec) -> bool:
    if not spec.ping_time:
        return False
    return not spec.renew_time or parse_time(spec.ping_time) > parse_time(
        spec.renew_time
    )


class CoordinatedElector(LeaderElector):
    """A candidate that leads only while the API server names it in the lease.

    It neither creates the lease nor takes one that has expired. If the API server
    prefers another holder, this process stops leading, and gives up the lease. If the
    lease is deleted, it stops as well: the API server may elect another candidate at
    once.
    """

    @property
    def _preferred(self) -> str:
        """The process that the API server prefers to this one, empty for none."""
        spec = self._observed.spec if self._observed else LeaseSpec()
        preferred = spec.preferred_holder or ""
        return preferred if preferred != self.identity else ""

    @property
    def _is_elected(self) -> bool:
        is_holder = self.holder == self.identity
        return is_holder and self.knows_leader and not self._preferred

    async def _take_absent(self) -> bool:
        """Leave the creation of the lease to the API server."""
        if self._observed is not None:
            self._observe(replace(self._observed, spec=LeaseSpec()))
        return False

    async def _take(self, lease: Lease) -> bool:
        return await self._write(lease) if self._is_elected else False

    def _observe(self, lease: Lease) -> None:
        before = self.holder
        super()._observe(lease)
        if self.holder == self.identity:
            self._may_hold = True
            if before != self.identity:
                self.previous_holder = before
        if self._leading and self._preferred:
            self._changed.set()

    def _check_still_leading(self) -> None:
        if self._leading and self.seconds_left() > 0 and self._preferred:
            preferred = self._preferred
            self._stop_leading()
            self._may_hold = True  # until `release`
            msg = f"the API server prefers {preferred} for the lease {self._key}"
            raise LeadershipYielded(msg)
        super()._check_still_leading()
