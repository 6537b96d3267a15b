"""The report of a preview, as JSON and as text."""

from datetime import datetime

import msgspec
from msgspec import Struct

from controller_manager.api.scalars import format_time
from controller_manager.options.config import PreviewConfig

from .entries import Entry
from .fields import shown_path
from .findings import Divergence, Findings
from .overlay import Overlay


class ReportedField(Struct, rename="camel"):
    """A field with its value in the preview and on the server."""

    field: str
    preview: str
    real: str


class ReportedDivergence(Struct, rename="camel"):
    """One divergence."""

    controller: str
    kind: str
    verb: str
    only: str
    object: str
    count: int
    first: str
    last: str
    fields: list[ReportedField]


class PendingWrite(Struct, rename="camel"):
    """The writes to one object that are not confirmed yet."""

    object: str
    kind: str
    seconds: float
    writes: list[str]


class Report(Struct, rename="camel"):
    """The state of a preview."""

    since: str
    now: str
    grace_seconds: float
    dry_run: bool
    flags_from: str
    flags: list[str]
    confirmed_writes: int
    dropped_writes: int
    overlay_entries: int
    overlay_bytes: int
    divergences: list[ReportedDivergence]
    pending: list[PendingWrite]


_PENDING = 100
"""The most objects whose writes are listed."""


def report_of(
    overlay: Overlay, findings: Findings, settings: PreviewConfig, since: datetime
) -> Report:
    """Return the state of a preview that began at `since`."""
    now = overlay.clock.monotonic()
    entries = list(overlay.entries)
    return Report(
        format_time(since),
        format_time(overlay.clock.now()),
        settings.grace,
        settings.dry_run,
        settings.source,
        list(settings.taken),
        findings.confirmed,
        findings.dropped,
        len(entries),
        overlay.entries.bytes,
        [_reported(each) for each in findings],
        [_pending(each, now) for each in entries[:_PENDING]],
    )


def _reported(divergence: Divergence) -> ReportedDivergence:
    found = divergence.difference
    return ReportedDivergence(
        found.controller,
        found.kind,
        found.verb,
        found.only,
        found.identity,
        divergence.count,
        divergence.first,
        divergence.last,
        [ReportedField(each.field, each.preview, each.real) for each in found.fields],
    )


def _pending(entry: Entry, now: float) -> PendingWrite:
    writes = []
    if entry.creation is not None:
        writes.append(f"create by {entry.creation.controller}")
    if entry.deletion is not None:
        writes.append(f"delete by {entry.deletion.controller}")
    writes += [
        f"{shown_path(path)} by {written.controller}"
        for path, written in entry.fields.items()
    ]
    seconds = round(now - entry.since(), 3)
    return PendingWrite(str(entry.key), entry.kind, seconds, sorted(writes))


def text_of(report: Report) -> str:
    """Return a report as text, the divergences first."""
    lines = [
        (
            f"Preview since {report.since}, at {report.now}: "
            f"{len(report.divergences)} divergences, "
            f"{report.confirmed_writes} writes confirmed, "
            f"{report.overlay_entries} objects with writes that are not confirmed yet "
            f"({report.overlay_bytes} bytes), {report.dropped_writes} dropped."
        )
    ]
    if report.flags_from:
        flags = " ".join(report.flags) or "none"
        lines.append(f"Flags from {report.flags_from}: {flags}")
    for each in report.divergences:
        who = {"preview": "only the preview", "real": "only the manager in charge"}
        made = who.get(each.only, "the two managers differ")
        lines.append(
            f"{each.last} {each.controller}: {each.verb} {each.object}: {made} "
            f"(found {each.count} times since {each.first})"
        )
        lines += [
            f"    {field.field}: preview {field.preview}, real {field.real}"
            for field in each.fields
        ]
    return "\n".join(lines) + "\n"


def encode(report: Report) -> bytes:
    """Return a report as JSON."""
    return msgspec.json.encode(report)
