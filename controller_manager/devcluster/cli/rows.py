"""The screen of the demo, and its row for each workload."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from controller_manager.api.apps import v1
from controller_manager.api.autoscaling.v2 import HorizontalPodAutoscaler
from controller_manager.api.batch.v1 import CronJob, Job
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.json_objects import JSON
from controller_manager.clock import Clock


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


def row_of_deployment(deployment: v1.Deployment) -> Row:
    """Return the row of a deployment; it is complete when no old pod is left."""
    wanted, status = v1.desired_replicas(deployment), deployment.status
    observed = status.observed_generation >= deployment.metadata.generation
    progress = "-"
    for each in status.conditions or ():
        if each.type == "Progressing":
            progress = each.reason
    return Row(
        "deployment",
        deployment.metadata.name,
        min(status.updated_replicas, status.available_replicas),
        wanted,
        f"ready {status.ready_replicas}/{wanted}  up-to-date {status.updated_replicas}"
        f"  available {status.available_replicas}"
        f"  terminating {status.terminating_replicas or 0}",
        _image(deployment.spec.template.spec),
        progress,
        observed
        and status.updated_replicas == wanted
        and status.replicas == wanted
        and status.available_replicas == wanted
        and not status.terminating_replicas,
        observed and 0 < status.updated_replicas == status.unavailable_replicas,
    )


def row_of_stateful_set(stateful_set: v1.StatefulSet) -> Row:
    """Return the row of a stateful set, with the pods that are up to date."""
    replicas, status = stateful_set.spec.replicas, stateful_set.status
    wanted = 1 if replicas is None else replicas
    is_rolled_out = status.current_revision == status.update_revision
    updated = status.current_replicas if is_rolled_out else status.updated_replicas
    return Row(
        "statefulset",
        stateful_set.metadata.name,
        min(updated, status.ready_replicas),
        wanted,
        f"ready {status.ready_replicas}/{wanted}  up-to-date {updated}",
        _image(stateful_set.spec.template.spec),
        f"{status.current_revision} -> {status.update_revision}"
        if not is_rolled_out
        else status.current_revision or "-",
        status.observed_generation >= stateful_set.metadata.generation
        and is_rolled_out
        and status.replicas == wanted
        and status.available_replicas == wanted,
    )


def row_of_daemon_set(daemon_set: v1.DaemonSet) -> Row:
    """Return the row of a daemon set, with the nodes that need a pod."""
    status = daemon_set.status
    wanted = status.desired_number_scheduled
    observed = status.observed_generation >= daemon_set.metadata.generation
    return Row(
        "daemonset",
        daemon_set.metadata.name,
        min(status.updated_number_scheduled, status.number_available),
        wanted,
        f"ready {status.number_ready}/{wanted}"
        f"  up-to-date {status.updated_number_scheduled}"
        f"  available {status.number_available}",
        _image(daemon_set.spec.template.spec),
        "on each node",
        observed
        and wanted > 0
        and status.updated_number_scheduled == wanted
        and status.number_available == wanted,
    )


def row_of_job(job: Job) -> Row:
    """Return the row of a job; it is complete when it has ended well."""
    wanted, status = job.spec.completions, job.status
    total = 1 if wanted is None else wanted
    ended = [
        each.type
        for each in status.conditions or ()
        if each.status == "True" and each.type in ("Complete", "Failed")
    ]
    return Row(
        "job",
        job.metadata.name,
        status.succeeded,
        total,
        f"succeeded {status.succeeded}/{total}  active {status.active}"
        f"  failed {status.failed}",
        _image(job.spec.template.spec),
        ended[0] if ended else "Running",
        ended == ["Complete"],
    )


def row_of_cron_job(cron_job: CronJob) -> Row:
    """Return the row of a cron job; it is complete while no run is active."""
    spec, status = cron_job.spec, cron_job.status
    job: JSON = msgspec.json.decode(spec.job_template.spec)
    active = len(status.active or ())
    return Row(
        "cronjob",
        cron_job.metadata.name,
        0 if active else 1,
        1,
        f"schedule {spec.schedule!r}  active {active}",
        _images(job["template"]["spec"]),
        f"last run {status.last_schedule_time or '-'}",
        not active,
    )


def row_of_claim(claim: PersistentVolumeClaim) -> Row:
    """Return the row of a claim to a volume; it is complete when it is bound."""
    phase = claim.status.phase
    deleted = claim.metadata.deletion_timestamp is not None
    bound = phase == "Bound"
    return Row(
        "claim",
        claim.metadata.name,
        int(bound),
        1,
        "Terminating" if deleted else phase,
        "-",
        claim.spec.volume_name or "-",
        bound and not deleted,
    )


def row_of_autoscaler(autoscaler: HorizontalPodAutoscaler) -> Row:
    """Return the row of an autoscaler of CPU; it is complete when it rests."""
    spec, status = autoscaler.spec, autoscaler.status
    found = [
        each.resource.current.average_value
        for each in status.current_metrics or ()
        if each.resource
    ]
    wanted = [
        each.resource.target.average_value
        for each in spec.metrics or ()
        if each.resource
    ]
    value = found[0] if found and found[0] else "?"
    target = wanted[0] if wanted else "?"
    return Row(
        "autoscaler",
        autoscaler.metadata.name,
        status.current_replicas,
        status.desired_replicas,
        f"cpu {value}/{target} each",
        f"{spec.scale_target_ref.kind}/{spec.scale_target_ref.name}",
        f"replicas {status.current_replicas} -> {status.desired_replicas}",
        bool(found) and status.current_replicas == status.desired_replicas,
    )


def all_complete(rows: Sequence[Row]) -> bool:
    """Tell whether there are workloads, and all are complete."""
    return bool(rows) and all(each.is_complete for each in rows)


def _image(spec: msgspec.Raw) -> str:
    """Return the images of a pod's spec that is not decoded."""
    return _images(msgspec.json.decode(spec))


def _images(spec: JSON) -> str:
    return ", ".join(each["image"] for each in spec["containers"])


ROWS: Final[Mapping[str, Callable[[Any], Row]]] = {
    "cronjobs": row_of_cron_job,
    "daemonsets": row_of_daemon_set,
    "deployments": row_of_deployment,
    "horizontalpodautoscalers": row_of_autoscaler,
    "jobs": row_of_job,
    "persistentvolumeclaims": row_of_claim,
    "statefulsets": row_of_stateful_set,
}
"""The function that makes the row of an object, by the plural of its kind."""

# The output: new lines, or a live table on a terminal

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

    @property
    def is_terminal(self) -> bool:
        """True if the console shows tables that change."""
        return self._console.is_terminal

    def title(self, text: str) -> None:
        """Print the title of a step."""
        self._console.print(f"\n[bold]{text}[/bold]")

    def line(self, text: str) -> None:
        """Print one line as it is."""
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
            self.line(f"{elapsed:6.1f}s  {text}")

    @contextmanager
    def following(self) -> Iterator[Callable[[Sequence[Row]], None]]:
        """Return a function that shows the present rows, until left."""
        if not self.is_terminal:
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
