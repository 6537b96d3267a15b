"""The divergences: what only one manager did, or did in another way."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from controller_manager.api.scalars import format_time
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger

_LONGEST_DELAY: Final = 3600.0
_ROUNDS: Final = 4
"""The grace times within which a controller repeats a write that was dropped."""

_MOST_SUSPECTED: Final = 10_000
_SHOWN: Final = 200
"""The longest text of a value that is shown."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field, with its value in the preview and on the server, as texts."""

    field: str
    preview: str
    real: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One write that the manager in charge did not make, or made in another way.

    `identity` names the object; for one with a generated name it names its owner.
    `only` is ``preview`` or ``real``: the manager that made the write, or ``both`` if
    the values differ.
    """

    controller: str
    kind: str
    verb: str
    only: str
    identity: str
    fields: tuple[FieldDifference, ...] = ()


@dataclass(slots=True)
class Divergence:
    """A difference, how often it was found, and when."""

    difference: Difference
    count: int
    first: str
    last: str
    next_report: float


@dataclass(frozen=True, slots=True)
class _Suspicion:
    """A write that was not confirmed once: when, and its fields but timestamps."""

    at: float
    fields: frozenset[str]


def _decisive(difference: Difference) -> frozenset[str]:
    """Return the fields of an update that are no timestamps.

    Another timestamp alone follows from an earlier difference, which is over.
    """
    if difference.verb != "update":
        return frozenset()
    names = (each.field for each in difference.fields)
    return frozenset(each for each in names if not each.endswith("Time"))


class PreviewMetrics:
    """The metrics of the preview."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("controller", "kind")
        self.divergences = Counter(
            "preview_divergences_total",
            "Differences between the preview and the manager in charge",
            labels,
            registry=registry,
        )
        self.confirmed = Counter(
            "preview_confirmed_writes_total",
            "Writes of the preview that the manager in charge made, too",
            labels,
            registry=registry,
        )
        self.dropped = Counter(
            "preview_dropped_writes_total",
            "Writes of the preview that were dropped because its memory was full",
            registry=registry,
        )
        self.entries = Gauge(
            "preview_overlay_entries",
            "Objects with writes of the preview that are not confirmed yet",
            registry=registry,
        )
        self.size = Gauge(
            "preview_overlay_bytes",
            "Approximate memory of the writes that are not confirmed yet",
            registry=registry,
        )


class Findings:
    """The divergences that were found, each once, with growing delays between reports.

    A write that is not confirmed may only be old: the object has changed since, and
    the controller had no reason to look at it again. It is shown the real object then.
    So a difference counts only once it is found a second time.

    A difference that is found again is counted and logged again only after the grace
    time, twice that, and so on, an hour at most. The oldest divergence is dropped when
    there are too many.
    """

    def __init__(
        self,
        clock: Clock,
        metrics: PreviewMetrics,
        logger: Logger,
        *,
        grace: float,
        most: int,
    ) -> None:
        self._clock = clock
        self.metrics = metrics
        self._logger = logger
        self._grace = grace
        self._most = most
        self._found: OrderedDict[Any, Divergence] = OrderedDict()
        self._suspected: OrderedDict[Any, _Suspicion] = OrderedDict()
        self.confirmed = 0
        self.dropped = 0

    def __iter__(self) -> Iterator[Divergence]:
        """Iterate over the divergences, the oldest first."""
        return iter(list(self._found.values()))

    def __len__(self) -> int:
        """Return the number of divergences that are listed."""
        return len(self._found)

    def confirm(self, controller: str, kind: str) -> None:
        """Count a write that the manager in charge made, too."""
        self.confirmed += 1
        self.metrics.confirmed.labels(controller, kind).inc()

    def drop(self) -> None:
        """Count writes that were dropped because the memory was full."""
        self.dropped += 1
        self.metrics.dropped.inc()

    def report(self, difference: Difference, *, is_certain: bool = False) -> None:
        """Record a difference; log and count it unless it was reported lately.

        One that is not certain must have been found shortly before.
        """
        now = self._clock.monotonic()
        at = format_time(self._clock.now())
        same = _identity(difference)
        known = self._found.get(same)
        if known is None and not (is_certain or self._was_suspected(difference, now)):
            return
        if known is None:
            known = Divergence(difference, 0, at, at, now)
            self._found[same] = known
            if len(self._found) > self._most:
                self._found.popitem(last=False)
        known.difference, known.last = difference, at
        if now < known.next_report:
            return
        known.count += 1
        delay = self._grace * 2.0 ** min(known.count, 32)
        known.next_report = now + min(delay, _LONGEST_DELAY)
        self.metrics.divergences.labels(difference.controller, difference.kind).inc()
        self._log(known)

    def _was_suspected(self, difference: Difference, now: float) -> bool:
        """Tell whether the write was found before, and made again since.

        Remember it if not. Several writes at once may have the same identity, such as
        the pods of a replica set: a later one was made and waited for the grace time.
        """
        write = (difference.controller, difference.verb, difference.identity)
        fields = _decisive(difference)
        before = self._suspected.get(write)
        if before is not None and now - before.at < self._grace:
            return False
        if before is not None and now - before.at <= _ROUNDS * self._grace:
            del self._suspected[write]
            if fields == before.fields or fields & before.fields:
                return True
        self._suspected[write] = _Suspicion(now, fields)
        if len(self._suspected) > _MOST_SUSPECTED:
            self._suspected.popitem(last=False)
        return False

    def _log(self, divergence: Divergence) -> None:
        found = divergence.difference
        fields = "; ".join(
            f"{each.field}: preview {each.preview}, real {each.real}"
            for each in found.fields
        )
        self._logger.warning(
            "The preview differs from the manager in charge",
            controller=found.controller,
            verb=found.verb,
            only=found.only,
            object=found.identity,
            fields=fields,
            count=divergence.count,
        )


def _identity(difference: Difference) -> tuple[object, ...]:
    return (
        difference.controller,
        difference.verb,
        difference.only,
        difference.identity,
        tuple(each.field for each in difference.fields),
    )


def shortened(text: str) -> str:
    """Return a text, cut off if it is long."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
