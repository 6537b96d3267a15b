"""The preview: its parts, its transport, and its judge.

The transport reads with the overlay on top, and does no writes. The judge reports each
write that is not confirmed within the grace time.
"""

import asyncio
import random
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry

from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.limits import RequestLimiter
from controller_manager.client.rest.transport import (
    READS,
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.options.config import PreviewConfig

from .absentees import Absentee
from .answers import expired, not_found, refusal, wants_metadata
from .contents import has_value, identity_of, is_opaque, unlike
from .creations import Mismatch
from .entries import Creation, Entry
from .fields import REMOVED, Path, as_number, server_version, shown_path, value_at
from .findings import Difference, FieldDifference, Findings, PreviewMetrics, shortened
from .overlay import Overlay
from .reading import Reader, ReadFailed, to_server
from .report import Report, report_of
from .streams import MergedStream, RefusedStream
from .target import Collection, Target, find_target
from .writing import Writer

_PERIOD: Final = 1.0
_READS: Final = 50
"""The most objects that are read in a second: thousands may be due together."""

_SHOWN_FIELDS: Final = 20


class Judge:
    """Compares each write with the server once its grace time is over."""

    def __init__(
        self, overlay: Overlay, inner: Transport, findings: Findings, logger: Logger
    ) -> None:
        self._overlay = overlay
        self._reader = Reader(overlay, inner)
        self._findings = findings
        self._logger = logger
        self._limiter = RequestLimiter(_READS, _READS, overlay.clock)

    async def run(self) -> None:
        """Judge every second, until cancelled."""
        while True:
            await self.judge()
            self._show_size()
            await asyncio.sleep(_PERIOD)

    async def judge(self) -> None:
        """Report and drop the writes that are not confirmed in time.

        If the server cannot be read, they are judged later. A write that is confirmed
        while it waits for its turn is not read.
        """
        oldest = self._overlay.clock.monotonic() - self._overlay.settings.grace
        for mismatch in list(self._overlay.creations.mismatches.values()):
            if mismatch.since <= oldest:
                await self._limiter.acquire()
                await self._judge_creation(mismatch)
        for entry in self._overlay.entries:
            if self._is_due(entry, oldest):
                await self._limiter.acquire()
                self._show_size()
            if self._is_due(entry, oldest):
                await self._judge(entry, oldest)

    def _is_due(self, entry: Entry, oldest: float) -> bool:
        is_current = self._overlay.entries.get(entry.key) is entry
        return is_current and entry.since() <= oldest

    def _show_size(self) -> None:
        metrics = self._findings.metrics
        metrics.entries.set(len(self._overlay.entries))
        metrics.size.set(self._overlay.entries.bytes)

    async def _judge(self, entry: Entry, oldest: float) -> None:
        try:
            real = await self._reader.real(entry.target)
        except (TransportError, ReadFailed) as error:
            self._logger.v(2).info(
                "Not compared with the server",
                object=str(entry.key),
                err=str(error),
            )
            return
        if real is None and entry.creation is None:
            self._overlay.observe_gone(entry.target, entry.real or {})
        if not self._is_due(entry, oldest):
            return
        self._report(entry)
        self._overlay.entries.drop(entry)

    def _report(self, entry: Entry) -> None:
        if (creation := entry.creation) is not None:
            self._report_creation(entry, creation)
        if (deletion := entry.deletion) is not None:
            self._findings.report(
                Difference(
                    deletion.controller, entry.kind, "delete", "preview", str(entry.key)
                )
            )
        by_controller: dict[str, dict[Path, tuple[Any, Any]]] = {}
        for path, written in entry.fields.items():
            pair = written.value, value_at(entry.real or {}, path)
            by_controller.setdefault(written.controller, {})[path] = pair
        for controller, fields in by_controller.items():
            shown = _shown(entry.target.collection, fields)
            self._findings.report(
                Difference(
                    controller, entry.kind, "update", "both", str(entry.key), shown
                )
            )

    def _report_creation(self, entry: Entry, creation: Creation) -> None:
        """Report a creation; the most similar object of the server shows the fields."""
        near = self._overlay.creations.near_miss(entry)
        fields: dict[Path, tuple[Any, Any]] = {}
        if near is not None:
            found = unlike(
                entry.target.collection,
                near,
                creation.sent,
                self._overlay.settings.grace,
            )
            fields = {path: (value, value_at(near, path)) for path, value in found}
        self._findings.report(
            Difference(
                creation.controller,
                entry.kind,
                "create",
                "preview" if near is None else "both",
                identity_of(entry.target, creation.sent),
                _shown(entry.target.collection, fields),
            )
        )

    async def _judge_creation(self, mismatch: Mismatch) -> None:
        """Report fields that still differ since both managers created the object."""
        target = mismatch.entry.target
        self._overlay.creations.mismatches.pop(target.key, None)
        creation = mismatch.entry.creation
        try:
            real = await self._reader.real(target)
        except (TransportError, ReadFailed):
            real = None
        if real is None or creation is None:
            return
        grace = self._overlay.settings.grace
        # A field that has changed since is decided by later writes.
        left = {
            path: (ours, theirs)
            for path, (ours, theirs) in mismatch.fields.items()
            if has_value(target.collection, real, path, theirs, grace)
        }
        if left:
            self._findings.report(
                Difference(
                    creation.controller,
                    mismatch.entry.kind,
                    "create",
                    "both",
                    str(target.key),
                    _shown(target.collection, left),
                ),
                is_certain=self._overlay.creations.saw_the_same(mismatch, real),
            )


def _shown(
    collection: Collection, fields: dict[Path, tuple[Any, Any]]
) -> tuple[FieldDifference, ...]:
    """Return the differences of fields as texts, without values that are secret."""
    shown = sorted(fields.items(), key=lambda each: shown_path(each[0]))
    return tuple(
        FieldDifference(
            shown_path(path),
            _text(collection, path, ours),
            _text(collection, path, theirs),
        )
        for path, (ours, theirs) in shown[:_SHOWN_FIELDS]
    )


def _text(collection: Collection, path: Path, value: Any) -> str:  # noqa: ANN401 - JSON
    if value is REMOVED:
        return "absent"
    if is_opaque(collection, path) or collection.plural == "secrets":
        return "(not shown)"
    return shortened(msgspec.json.encode(value).decode())


class PreviewTransport:
    """Sends the reads of one controller; answers its writes from the overlay.

    A request that is neither a read nor a review of rights reaches the server only as
    a dry run. Events are answered and forgotten.
    """

    def __init__(
        self, inner: Transport, overlay: Overlay, controller: str, rng: random.Random
    ) -> None:
        """Take the transport to the server; it stays the caller's to close."""
        self._inner = inner
        self._overlay = overlay
        self._reader = Reader(overlay, inner)
        self._writer = Writer(overlay, inner, controller, rng)

    @property
    def host(self) -> str:
        """``host:port`` of the server."""
        return self._inner.host

    async def request(self, request: Request) -> Response:
        """Answer a request; see `Transport.request`."""
        target = find_target(request.path)
        if request.method in READS:
            if target is None:
                return await self._inner.request(request)
            return await self._reader.answer(target, request)
        if target is None:
            nowhere = Target(Collection("", ""), "")
            why = f"a preview does not send {request.method} {request.path}"
            code = HTTPStatus.METHOD_NOT_ALLOWED
            return refusal(nowhere, code, "MethodNotAllowed", why).answer
        if target.is_review and request.method == "POST":
            return await self._inner.request(request)
        if request.before_write is not None:
            request.before_write()
        if target.is_event:
            if request.method == "POST":
                return Response(HTTPStatus.CREATED, {}, request.body or b"{}")
            # The recorder then creates the whole event, with its new count.
            return not_found(target).answer
        return await self._writer.answer(target, request)

    async def stream(self, request: Request) -> Stream:
        """Open a watch of the view; see `Transport.stream`."""
        target = find_target(request.path)
        if target is None:
            return await self._inner.stream(request)
        query = dict(request.query)
        since = query.get("resourceVersion", "")
        changes = self._overlay.changes
        missed = changes.after(changes.shown_at(target.collection, since))
        is_initial = query.get("sendInitialEvents") == "true"
        if missed is None and not is_initial:
            return RefusedStream(expired(target).answer)
        number = self._overlay.changes.number
        stream = await self._inner.stream(to_server(request))
        if stream.status != HTTPStatus.OK:
            return stream
        merged = MergedStream(
            self._overlay,
            stream,
            target,
            request.query,
            0 if is_initial else as_number(server_version(since)),
            metadata_only=wants_metadata(request.headers.get("accept", "")),
        )
        if not is_initial:
            later = self._overlay.changes.after(number) or []
            for change in [*(missed or []), *later]:
                if change.key.collection == target.collection and merged.selects(
                    change
                ):
                    merged.add(change)
        return merged

    async def close(self) -> None:
        """Leave the connections open: they belong to the caller."""


class Preview:
    """Runs controllers beside the manager in charge, without a write.

    Give every client of the daemon a transport of `transport`, and run `run`.
    """

    def __init__(
        self,
        settings: PreviewConfig,
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
