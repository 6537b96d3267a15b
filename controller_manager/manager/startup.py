"""The start-up: selects the controllers, and makes those that can run."""

import asyncio
import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import Any, Final

from msgspec import Struct

from controller_manager.client.builder import ClientBuilder
from controller_manager.client.discovery.resource_mapper import ResourceMapper
from controller_manager.client.discovery.resources import served_resources
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client, WriteHook, ignore_write
from controller_manager.clock import Clock
from controller_manager.informers.factory import ControllerInformers, InformerFactory
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.collectors import Collectors
from controller_manager.options.config import Config
from controller_manager.options.controller_options import InvalidConfiguration
from controller_manager.options.gates import FeatureGates
from controller_manager.runtime.consistency import ConsistencyStore
from controller_manager.runtime.context import ControllerContext, InitFunction
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.registry import Registry
from controller_manager.runtime.worker import Turns

from .controllers import EventBroadcasters
from .selection import selected_controllers

_POLL: Final = 1.0
_DISCOVERIES: Final = 10
"""The number of look-ups of all groups before the start goes on without some."""


class Unserved(Struct, frozen=True):
    """The resources that the API server lacks.

    `lacking` has them for each controller by its name; `problems` says which group
    versions could not be discovered, and why.
    """

    lacking: Mapping[str, Sequence[str]]
    problems: Mapping[str, str]


async def unserved_resources(
    client: Client, descriptors: Iterable[Descriptor], features: FeatureGates
) -> Unserved:
    """Return the required resources that the API server lacks, by controller.

    Resources of a group version that cannot be discovered count as missing.
    """
    served: dict[str, frozenset[str]] = {}
    problems: dict[str, str] = {}
    lacking: dict[str, list[str]] = {}
    for descriptor in descriptors:
        missing = lacking[descriptor.name] = []
        for resource in descriptor.requires_with(features):
            version = resource.api_version
            if version not in served:
                served[version] = frozenset()
                try:
                    found = await served_resources(client, version)
                    served[version] = found or frozenset()
                except (
                    errors.APIError,
                    errors.TransportError,
                    errors.ProtocolError,
                ) as error:
                    problems[version] = str(error)
            if resource.plural not in served[version]:
                missing.append(f"{version}/{resource.plural}")
    return Unserved(lacking, problems)


class StartError(Exception):
    """The daemon cannot start; the message says why and what to do."""


class Prepared(Struct, frozen=True):
    """A controller that has been made, and its informers.

    Without `is_available` the API server lacks resources that it requires. Then its
    informers are held.
    """

    descriptor: Descriptor
    controller: Controller
    informers: ControllerInformers
    is_available: bool


@dataclass(slots=True)
class StartUp:
    """Waits for the API server, discovers its resources, makes the controllers."""

    build: Registry
    config: Config
    clients: ClientBuilder
    factory: InformerFactory
    events: EventBroadcasters
    _: KW_ONLY
    clock: Clock
    rng: random.Random
    logger: Logger
    root_ca: str
    turns: Turns
    metrics: Collectors
    _resources: ResourceMapper = field(init=False)
    _wanted: list[Descriptor] = field(init=False, default_factory=list)
    _waiting_for: str = field(init=False, default="the start")

    def __post_init__(self) -> None:
        """Make what finds the resource of a kind, for all controllers."""
        self._resources = ResourceMapper(self.clients.manager(), self.clock)

    def problem(self) -> str | None:
        """Return what the start waits for, `None` once the controllers are made."""
        return f"waiting for {self._waiting_for}" if self._waiting_for else None

    def select(self) -> None:
        """Select the controllers of ``--controllers`` that may run here."""
        self._wanted = selected_controllers(self.build, self.config, self.logger)

    async def prepare(self) -> list[Prepared]:
        """Return the selected controllers, in the order in which they start.

        Waits for the API server, for as long as the config says. Raises StartError
        if the API server does not become healthy in time, or cannot be trusted.
        """
        await self._wait_for_api_server()
        self._waiting_for = "discovery"
        lacking = await self._discover_missing()
        prepared = []
        for descriptor in sorted(self._wanted, key=lambda each: not each.runs_first):
            missing = lacking[descriptor.name]
            if missing:
                self.logger.warning(
                    "Controller waits for resources that the API server lacks",
                    controller=descriptor.name,
                    missing=", ".join(missing),
                )
            informers = ControllerInformers(
                self.factory,
                descriptor.reads,
                descriptor.name,
                is_held=bool(missing),
            )
            controller = self._make(descriptor, informers)
            if controller is not None:
                prepared.append(
                    Prepared(descriptor, controller, informers, not missing)
                )
        self._waiting_for = ""
        return prepared

    async def missing(self, descriptors: Iterable[Descriptor]) -> Unserved:
        """Return the required resources that the API server lacks, by controller.

        Resources of a group version that cannot be discovered count as missing.
        """
        return await unserved_resources(
            self.clients.manager(), descriptors, self.config.features
        )

    def _make(
        self, descriptor: Descriptor, informers: ControllerInformers
    ) -> Controller | None:
        """Return the controller, `None` if it lacks flags; raises StartError."""
        if lacking := self._lacking(descriptor):
            self.logger.warning(
                "Controller is disabled by the configuration",
                controller=descriptor.name,
                give=lacking,
            )
            return None
        context = self._context(descriptor, informers)
        try:
            return _made(descriptor.resolve(), context)
        except InvalidConfiguration as error:
            raise StartError(str(error)) from None
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            msg = (
                f"{descriptor.name} of {descriptor.package} cannot be made: {why}; "
                f"repair it, or disable it with --controllers=*,-{descriptor.name}"
            )
            self.logger.v(2).info("Controller not made", exc_info=error)
            raise StartError(msg) from error

    def _lacking(self, descriptor: Descriptor) -> str:
        """Return the flags that a controller lacks, "" for none."""
        unknown = descriptor.clusters - self.clients.clusters
        if unknown:
            return ", ".join(f"--kubeconfig-{each}" for each in sorted(unknown))
        return descriptor.lacks(self.config, self.root_ca)

    def _context(
        self, descriptor: Descriptor, informers: ControllerInformers
    ) -> ControllerContext:
        # Events have their own rate limit, so that a burst of them does not delay
        # syncs.
        recorder = self.events.make(self._client(descriptor), descriptor.source)
        consistency = ConsistencyStore(informers)
        return ControllerContext(
            name=descriptor.name,
            config=self.config,
            client=self._client(descriptor, consistency.record_write),
            informers=informers,
            recorder=recorder,
            clock=self.clock,
            server_clock=self.clients.server_clock,
            rng=self.rng,
            logger=self.logger.bind(component=descriptor.name),
            root_ca=self.root_ca,
            turns=self.turns,
            metrics=self.metrics,
            consistency=consistency,
            resources=self._resources,
            reader=self.clients.manager(),
        )

    def _client(
        self, descriptor: Descriptor, on_write: WriteHook = ignore_write
    ) -> Client:
        wide = descriptor.in_flight
        return self.clients.controller(
            descriptor.name,
            descriptor.account,
            descriptor.qps_factor,
            descriptor.burst_factor,
            on_write,
            in_flight=0 if wide is None else wide(self.config),
        )

    async def _wait_for_api_server(self) -> None:
        client = self.clients.manager()
        patience = self.config.generic.api_server_timeout
        deadline = self.clock.monotonic() + patience if patience else None
        known = ""
        while problem := await _health_problem(client):
            self._waiting_for = f"the API server: {problem}"
            if deadline is not None and self.clock.monotonic() + _POLL > deadline:
                msg = (
                    "failed to wait for apiserver being healthy within "
                    f"{patience:g} s: {problem}"
                )
                raise StartError(msg)
            if problem != known:
                self.logger.warning("Waiting for the API server", err=problem)
                known = problem
            await asyncio.sleep(_POLL)

    async def _discover_missing(self) -> Mapping[str, Sequence[str]]:
        """Return the missing resources by controller, once all groups are discovered.

        A group that cannot be discovered delays the start by ten seconds at most: its
        controllers then wait for their resources.
        """
        for attempt in itertools.count(1):
            missing = await self.missing(self._wanted)
            for version, problem in missing.problems.items():
                self.logger.warning(
                    "Resources not discovered, trying again",
                    groupVersion=version,
                    err=problem,
                )
            is_enough = attempt >= _DISCOVERIES and not all(missing.lacking.values())
            if not missing.problems or is_enough:
                break
            await asyncio.sleep(_POLL)
        return missing.lacking


def _made(loaded: Any, context: ControllerContext) -> Controller:  # noqa: ANN401
    """Return the workers of a `Reconciler` class or an init function, not yet running.

    Raises TypeError if the init function returns `None`.
    """
    if isinstance(loaded, type) and issubclass(loaded, Reconciler):
        return loaded.make(context)
    init: InitFunction = loaded
    made: Controller | None = init(context)
    if made is None:
        msg = "its init function returned None; name missing flags in `lacks`"
        raise TypeError(msg)
    return made


async def _health_problem(client: Client) -> str | None:
    try:
        answer = await client.raw("GET", "/healthz")
    except errors.UntrustedServer as error:
        # Waiting does not help: the configuration is wrong.
        raise StartError(str(error)) from error
    except errors.TransportError as error:
        return str(error)
    if answer.status == HTTPStatus.OK:
        return None
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"/healthz answered {answer.status}: check the credentials"
    location = answer.headers.get("location")
    refusal = errors.error_from_response(answer.status, answer.body, None, location)
    if isinstance(refusal, errors.Redirected):
        return f"/healthz: {refusal}"
    return f"/healthz answered {answer.status}"
