"""A manager in charge, and a preview beside it, on one cluster."""

import asyncio
import io
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry

from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Request, Response, Transport
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import make_logger
from controller_manager.options.config import Config, PreviewConfig
from controller_manager.preview.report import Report
from tests.clusters import ROOT_CA, Cluster, make_config, run_manager
from tests.streams import PassedTransport


@dataclass
class Witness(PassedTransport):
    """Passes all requests on; records those that could write."""

    writes: list[str] = field(default_factory=list)
    dry_runs: int = 0
    reads: int = 0

    async def request(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD") and "reviews" not in request.path:
            if ("dryRun", "All") in request.query:
                self.dry_runs += 1
            else:
                self.writes.append(f"{request.method} {request.path}")
        self.reads += request.method == "GET"
        return await self.inner.request(request)


@dataclass
class Shadow:
    manager: ControllerManager
    witness: Witness
    log: io.StringIO
    registry: CollectorRegistry

    @property
    def report(self) -> Report:
        preview = self.manager.preview
        assert preview is not None
        return preview.report()


def previewing(config: Config, **options: object) -> Config:
    preview = PreviewConfig(enabled=True, **options)  # type: ignore[arg-type]
    return replace(config, preview=preview)


@asynccontextmanager
async def shadowed(
    cluster: Cluster,
    config: Config | None = None,
    shadow_config: Config | None = None,
    **options: object,
) -> AsyncGenerator[Shadow, None]:
    config = config or make_config()
    async with (
        cluster.manager(config),
        shadow(cluster, previewing(shadow_config or config, **options)) as running,
    ):
        yield running


@asynccontextmanager
async def shadow(
    cluster: Cluster, config: Config, transport: Transport | None = None
) -> AsyncGenerator[Shadow, None]:
    witness = Witness(transport or cluster.transport)
    log = io.StringIO()
    registry = CollectorRegistry()
    async with run_manager(
        Connections(witness, root_ca=ROOT_CA),
        cluster.clock,
        random.Random(7),
        config,
        make_logger(stream=log),
        registry,
    ) as manager:
        yield Shadow(manager, witness, log, registry)
    assert witness.writes == []


async def settle(seconds: float) -> None:
    await asyncio.sleep(seconds)
