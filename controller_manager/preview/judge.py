"""The judge: it reports each write that is not confirmed within the grace time."""

import asyncio
from typing import Any, Final

import msgspec

from controller_manager.client.errors import TransportError
from controller_manager.client.ratelimit import RequestLimiter
from controller_manager.client.transport import Transport
from controller_manager.observability.logs import Logger

from .contents import has_value, identity_of, is_opaque, unlike
from .creations import Mismatch
from .entry import Creation, Entry
from .fields import REMOVED, Path, shown_path, value_at
from .findings import Difference, FieldDifference, Findings, shortened
from .overlay import Overlay
from .reading import Reader, ReadFailed
from .target import Collection

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
