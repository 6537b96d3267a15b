"""The preview: all its parts, and the transports that it gives to clients."""

import random
from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from controller_manager.client.transport import Transport
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger

from .absentees import Absentee
from .findings import Findings, PreviewMetrics
from .judge import Judge
from .overlay import Overlay
from .report import Report, report_of
from .settings import PreviewSettings
from .transport import PreviewTransport


class Preview:
    """Runs controllers beside the manager in charge, without a write.

    Give every client of the daemon a transport of `transport`, and run `run`.
    """

    def __init__(
        self,
        settings: PreviewSettings,
        inner: Transport,
        absent: Iterable[Absentee] = (),
        *,
        clock: Clock,
        rng: random.Random,
        registry: CollectorRegistry,
        logger: Logger,
    ) -> None:
        """Take the transport to the server; register the metrics.

        `absent` are the controllers that do not run in the preview.
        """
        self._settings = settings
        self._inner = inner
        self._clock = clock
        self._rng = rng
        metrics = PreviewMetrics(registry)
        self.findings = Findings(
            clock,
            metrics,
            logger,
            grace=settings.grace,
            most=settings.most_findings,
        )
        self.overlay = Overlay(settings, clock, self.findings, absent)
        self._judge = Judge(self.overlay, inner, self.findings, logger)
        self._since = clock.now()

    def transport(self, controller: str = "") -> Transport:
        """Return the transport of one controller, or of the manager itself."""
        return PreviewTransport(self._inner, self.overlay, controller, self._rng)

    async def run(self) -> None:
        """Judge the writes until cancelled."""
        await self._judge.run()

    def report(self) -> Report:
        """Return the state of the preview, as ``/debug/preview`` shows it."""
        return report_of(self.overlay, self.findings, self._settings, self._since)
