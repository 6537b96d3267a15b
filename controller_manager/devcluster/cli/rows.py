"""The screen of the demo, and its row for each workload."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from msgspec import Struct
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from controller_manager.api.json_objects import JSON
from controller_manager.clock import Clock
from controller_manager.devcluster.manifests import Manifest


class Row(Struct, frozen=True):
    """A workload in numbers; `numbers` has those that a line shows.

    `done` of `total` pods have the wanted state. `progress` is the text of its
    controller. It is stuck while all its new pods are unavailable.
    """

    kind: str
    name: str
    done: int
    total: int
    numbers: str
    image: str
    progress: str
    is_complete: bool
    is_stuck: bool = False

    @property
    def line(self) -> str:
        """The row as a line of text."""
        return f"{self.name:<7} {self.numbers}  {self.image}  {self.progress}"


class _Workload(NamedTuple):
    """An object, and whether its controller has seen its spec; no number is 0."""

    name: str
    spec: JSON
    status: Any
    observed: bool
    is_deleted: bool


def row_of(plural: str, obj: JSON) -> Row:
    """Return the row of an object of the API server."""
    metadata = obj["metadata"]
    status: Counter[str] = Counter(obj.get("status", {}))
    observed = status["observedGeneration"] >= metadata.get("generation", 0)
    is_deleted = "deletionTimestamp" in metadata
    return _ROWS[plural](
        _Workload(metadata["name"], obj["spec"], status, observed, is_deleted)
    )


def _of_deployment(found: _Workload) -> Row:
    """Return a row that is complete when no old pod is left."""
    status, wanted = found.status, found.spec["replicas"]
    updated, available = status["updatedReplicas"], status["availableReplicas"]
    terminating = status["terminatingReplicas"] or 0
    progress = [
        each["reason"]
        for each in status["conditions"] or ()
        if each["type"] == "Progressing"
    ]
    is_rolled_out = updated == status["replicas"] == available == wanted
    return Row(
        "deployment",
        found.name,
        min(updated, available),
        wanted,
        f"ready {status['readyReplicas']}/{wanted}  up-to-date {updated}"
        f"  available {available}  terminating {terminating}",
        _images(found.spec["template"]),
        progress[0] if progress else "-",
        found.observed and is_rolled_out and not terminating,
        found.observed and 0 < updated == status["unavailableReplicas"],
    )


def _of_stateful_set(found: _Workload) -> Row:
    status, wanted = found.status, found.spec["replicas"]
    current, update = (
        status[f"{each}Revision"] or "" for each in ("current", "update")
    )
    is_rolled_out = current == update
    updated = status["currentReplicas" if is_rolled_out else "updatedReplicas"]
    counts = {status["replicas"], status["availableReplicas"], wanted}
    return Row(
        "statefulset",
        found.name,
        min(updated, status["readyReplicas"]),
        wanted,
        f"ready {status['readyReplicas']}/{wanted}  up-to-date {updated}",
        _images(found.spec["template"]),
        current or "-" if is_rolled_out else f"{current} -> {update}",
        found.observed and is_rolled_out and len(counts) == 1,
    )


def _of_daemon_set(found: _Workload) -> Row:
    status, wanted = found.status, found.status["desiredNumberScheduled"]
    updated, available = status["updatedNumberScheduled"], status["numberAvailable"]
    return Row(
        "daemonset",
        found.name,
        min(updated, available),
        wanted,
        f"ready {status['numberReady']}/{wanted}  up-to-date {updated}"
        f"  available {available}",
        _images(found.spec["template"]),
        "on each node",
        found.observed and 0 < wanted == updated == available,
    )


def _of_job(found: _Workload) -> Row:
    status, total = found.status, found.spec.get("completions", 1)
    ended = [
        each["type"]
        for each in status["conditions"] or ()
        if each["status"] == "True" and each["type"] in ("Complete", "Failed")
    ]
    return Row(
        "job",
        found.name,
        status["succeeded"],
        total,
        f"succeeded {status['succeeded']}/{total}  active {status['active']}"
        f"  failed {status['failed']}",
        _images(found.spec["template"]),
        ended[0] if ended else "Running",
        ended == ["Complete"],
    )


def _of_cron_job(found: _Workload) -> Row:
    """Return a row that is complete while no run is active."""
    active = len(found.status["active"] or ())
    return Row(
        "cronjob",
        found.name,
        0 if active else 1,
        1,
        f"schedule {found.spec['schedule']!r}  active {active}",
        _images(found.spec["jobTemplate"]["spec"]["template"]),
        f"last run {found.status['lastScheduleTime'] or '-'}",
        not active,
    )


def _of_claim(found: _Workload) -> Row:
    phase = "Terminating" if found.is_deleted else found.status["phase"]
    is_bound, volume = phase == "Bound", found.spec.get("volumeName", "-")
    return Row("claim", found.name, is_bound, 1, phase, "-", volume, is_bound)


def _of_autoscaler(found: _Workload) -> Row:
    """Return a row that is complete when the autoscaler of CPU rests."""
    metrics = [each["resource"] for each in found.spec["metrics"]]
    values = [
        each["resource"]["current"].get("averageValue", "?")
        for each in found.status["currentMetrics"] or ()
        if each.get("resource")
    ]
    current = found.status["currentReplicas"]
    desired = found.status["desiredReplicas"]
    target = found.spec["scaleTargetRef"]
    wanted = metrics[0]["target"]["averageValue"]
    return Row(
        "autoscaler",
        found.name,
        current,
        desired,
        f"cpu {values[0] if values else '?'}/{wanted} each",
        f"{target['kind']}/{target['name']}",
        f"replicas {current} -> {desired}",
        bool(values) and current == desired,
    )


_ROWS: Final[dict[str, Callable[[_Workload], Row]]] = {
    "cronjobs": _of_cron_job,
    "daemonsets": _of_daemon_set,
    "deployments": _of_deployment,
    "horizontalpodautoscalers": _of_autoscaler,
    "jobs": _of_job,
    "persistentvolumeclaims": _of_claim,
    "statefulsets": _of_stateful_set,
}


def _images(template: JSON) -> str:
    return ", ".join(each["image"] for each in template["spec"]["containers"])


# The screen: new lines, or a live table on a terminal

_BAR: Final = 20
"""Columns of a progress bar."""


class Screen:
    """Prints to a console; times are counted from its creation."""

    def __init__(self, console: Console, clock: Clock) -> None:
        """Take the console; a terminal shows tables that change, others lines."""
        self._console = console
        self._clock = clock
        self._shown: dict[str, str] = {}
        self._began = clock.monotonic()

    def title(self, text: str) -> None:
        """Print the title of a step."""
        self._console.print(f"\n[bold]{text}[/bold]")

    def created(self, manifest: Manifest) -> None:
        """Print that an object was created, where no table changes."""
        if not self._console.is_terminal:
            self._line(f"         {manifest.kind.singular}/{manifest.name} created")

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)

    def answer(self, command: str, text: str) -> None:
        """Print a command and its answer, indented, with all brackets."""
        lines = [f"$ {command}", *text.rstrip().splitlines()]
        shown = "\n".join(f"         {each}".rstrip() for each in lines)
        self._console.print(shown, highlight=False, markup=False, soft_wrap=True)

    def line_if_new(self, key: str, text: str) -> None:
        """Print a line with the time, unless it is the last one of that key."""
        if self._shown.get(key) != text:
            self._shown[key] = text
            elapsed = self._clock.monotonic() - self._began
            self._line(f"{elapsed:6.1f}s  {text}")

    @contextmanager
    def following(self) -> Iterator[Callable[[Sequence[Row]], None]]:
        """Return a function that shows the present rows, until left."""
        if not self._console.is_terminal:
            yield self._show_new
            return
        with Live(console=self._console, refresh_per_second=10) as live:
            yield lambda rows: live.update(_table(rows))

    def _show_new(self, rows: Sequence[Row]) -> None:
        for each in rows:
            self.line_if_new(f"{each.kind}/{each.name}", each.line)


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("KIND", "NAME", "DONE", "IMAGE", "", "PROGRESS"):
        table.add_column(title)
    for each in rows:
        style = "green" if each.is_complete else "yellow"
        table.add_row(
            each.kind,
            f"[{style}]{each.name}[/]",
            f"{each.done}/{each.total}",
            each.image,
            ProgressBar(total=max(each.total, 1), completed=each.done, width=_BAR),
            each.progress,
        )
    return table
