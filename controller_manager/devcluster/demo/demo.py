"""The steps of the demo: the actions of a user, and the waits for their results.

The screen looks at the objects by a client of ours, ten times a second: that costs less
than models would. Import this module only when it is used, as ``user``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from rich.console import Console

from controller_manager.api.apps.v1 import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.autoscaling.v2 import HORIZONTAL_POD_AUTOSCALERS
from controller_manager.api.batch.v1 import CRON_JOBS, JOBS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import NAMESPACES
from controller_manager.api.meta import Resource
from controller_manager.cli.subcommands import Explain
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Transport
from controller_manager.clock import Clock
from controller_manager.devcluster.manifests import Manifest, read_manifests

from .progress import (
    DemoError,
    everything_runs,
    has_caught_up,
    has_started,
    is_stuck,
    items_of,
    namespace_line,
    runs_on,
    waiting_reason,
)
from .rows import (
    Row,
    all_complete,
    row_of_autoscaler,
    row_of_claim,
    row_of_cron_job,
    row_of_daemon_set,
    row_of_deployment,
    row_of_job,
    row_of_stateful_set,
)
from .screen import Screen
from .user import FEWEST, LITTLE, MOST, MUCH, NAMESPACE, User

_PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_POLL: Final = 0.1
_PATIENCE: Final = 40.0
"""Seconds that a step may take before the demo gives up."""
_WIDTH: Final = 70
"""Columns of an explanation, which is indented."""
_PAUSE: Final = 2.0
"""Seconds for which a failure stays on the screen before it is repaired."""
_ALL: Final = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS)
_ROWS: Final[Mapping[str, Callable[[Any], Row]]] = {
    "cronjobs": row_of_cron_job,
    "daemonsets": row_of_daemon_set,
    "deployments": row_of_deployment,
    "horizontalpodautoscalers": row_of_autoscaler,
    "jobs": row_of_job,
    "persistentvolumeclaims": row_of_claim,
    "statefulsets": row_of_stateful_set,
}


def sample_manifests() -> list[Manifest]:
    """Return the objects of devcluster/samples, which belong to the package."""
    samples: Traversable = files("controller_manager.devcluster") / "samples"
    return read_manifests([samples])


@dataclass(slots=True)
class Summary:
    """The steps and their seconds, for the summary at the end."""

    steps: list[tuple[str, float]] = field(default_factory=list)


class Demo:
    """Plays rollouts one after the other, and shows their progress."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        console: Console,
        explain: Explain | None = None,
    ) -> None:
        """Take the transport to the cluster, the console, and how to explain objects.

        Without `explain`, the demo shows a broken rollout and does not explain it.
        """
        self._explain = explain
        self._transport = transport
        self._client = Client(transport, clock)
        self._user = User(self._client.api_client())
        self._clock = clock
        self._screen = Screen(console, clock)
        self._summary = Summary()

    async def run(self) -> Summary:
        """Play all steps; raises DemoError if one does not finish."""
        manifests = sample_manifests()
        await self._step(
            f"Apply {len(manifests)} objects from devcluster/samples",
            lambda: self._create(manifests),
            everything_runs,
            kinds=_ALL,
        )
        await self._update_deployments()
        await self._step(
            "Update db from its last pod on, and agent node by node",
            self._user.update_two,
            all_complete,
            kinds=(STATEFUL_SETS, DAEMON_SETS),
        )
        await self._step(
            "Set the last run of report back by a day: it makes up for one run",
            self._miss_a_run,
            has_caught_up,
            kinds=(CRON_JOBS, JOBS),
        )
        await self._follow_a_load()
        await self._step(
            "Delete worker, which goes once its pods have (--cascade=foreground)",
            self._user.delete_worker,
            lambda left: "worker" not in {each.name for each in left},
        )
        await self._step(
            "Delete db and, as its policy wants, its claims (whenDeleted: Delete)",
            self._user.delete_db,
            lambda left: not left,
            kinds=(STATEFUL_SETS, CLAIMS),
        )
        await self._step(
            f"Delete the namespace {NAMESPACE} with all that is left in it",
            self._delete_namespace,
            lambda left: not left,
            kinds=_ALL,
        )
        return self._summary

    async def _follow_a_load(self) -> None:
        kinds = (HORIZONTAL_POD_AUTOSCALERS, DEPLOYMENTS)
        await self._step(
            f"Autoscale worker from {FEWEST} to {MOST} pods, and load it with {MUCH} "
            "cores",
            self._user.autoscale,
            lambda rows: runs_on(rows, MOST),
            kinds=kinds,
        )
        await self._step(
            f"Leave {LITTLE} of the load: worker gets smaller again",
            lambda: self._user.load(LITTLE),
            lambda rows: runs_on(rows, FEWEST),
            kinds=kinds,
            then=self._user.delete_autoscaler,
        )

    async def _update_deployments(self) -> None:
        await self._step(
            "Update the image of web to nginx:1.29",
            lambda: self._user.set_image("web", "nginx:1.29"),
            all_complete,
        )
        await self._step(
            "Update web again, to an image that cannot be pulled",
            lambda: self._user.set_image("web", "broken:1.30"),
            is_stuck,
            then=self._show_broken,
        )
        await self._step("Roll web back", self._roll_back, all_complete)
        await self._step(
            "Scale web from 6 to 10 and worker from 4 to 2",
            self._scale_two,
            all_complete,
        )
        await self._step(
            "Update cache, which must stop before it starts (Recreate)",
            lambda: self._user.set_image("cache", "redis:8.2"),
            all_complete,
        )

    async def _step(
        self,
        title: str,
        action: Callable[[], Awaitable[None]],
        is_done: Callable[[Sequence[Row]], bool],
        *,
        kinds: Sequence[Resource[Any]] = (DEPLOYMENTS,),
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._screen.title(title)
        started = self._clock.monotonic()
        await action()
        with self._screen.following() as show:
            deadline = started + _PATIENCE
            while True:
                rows = await self._rows(kinds)
                show(rows)
                if is_done(rows):
                    break
                if self._clock.monotonic() > deadline:
                    msg = f"not finished within {_PATIENCE:g} s: {title}"
                    raise DemoError(msg)
                await asyncio.sleep(_POLL)
        if then is not None:
            await then()
        self._summary.steps.append((title, self._clock.monotonic() - started))

    async def _rows(self, kinds: Sequence[Resource[Any]]) -> list[Row]:
        """Return a row of each workload of these kinds."""
        rows: list[Row] = []
        for kind in kinds:
            page = await self._client.list_page(kind, NAMESPACE)
            rows += map(_ROWS[kind.plural], page.items)
        return rows

    async def _show_broken(self) -> None:
        """Show why the pods wait, then the explanation of the whole, for a moment."""
        await self._show_waiting()
        if self._explain is not None:
            command = f"controller-manager explain deploy/web -n {NAMESPACE}"
            text = await self._explain(
                self._transport, self._clock, NAMESPACE, "deploy/web", _WIDTH
            )
            self._screen.answer(command, text)
        await asyncio.sleep(_PAUSE)

    async def _show_waiting(self) -> None:
        """Wait until each new pod has a waiting reason; show it.

        Raises DemoError if a pod gets no reason in time.
        """
        deadline = self._clock.monotonic() + _PATIENCE
        while True:
            answer = await self._transport.request(Request("GET", _PODS_PATH))
            pods = [each for each in items_of(answer.body) if not has_started(each)]
            reasons = {each["metadata"]["name"]: waiting_reason(each) for each in pods}
            for name, reason in reasons.items():
                if reason:
                    self._screen.line_if_new(name, f"{name}  {reason}")
            if reasons and all(reasons.values()):
                return
            if self._clock.monotonic() > deadline:
                msg = f"no reason within {_PATIENCE:g} s why pods do not start"
                raise DemoError(msg)
            await asyncio.sleep(_POLL)

    async def _create(self, manifests: list[Manifest]) -> None:
        for each in manifests:
            await self._user.create(each)
            if not self._screen.is_terminal:
                self._screen.line(f"         {each.kind.singular}/{each.name} created")

    async def _roll_back(self) -> None:
        try:
            await self._user.roll_back("web")
        except LookupError as error:
            raise DemoError(str(error)) from None

    async def _miss_a_run(self) -> None:
        """Let the cron job have run a day ago for the last time, but not since."""
        await self._user.set_last_run(self._clock.now() - timedelta(days=1, minutes=1))

    async def _scale_two(self) -> None:
        await self._user.scale("web", 10)
        await self._user.scale("worker", 2)

    async def _delete_namespace(self) -> None:
        await self._user.delete_namespace()
        deadline = self._clock.monotonic() + _PATIENCE
        while self._clock.monotonic() < deadline:
            try:
                namespace = await self._client.get(NAMESPACES, "", NAMESPACE)
            except NotFound:
                return
            self._screen.line_if_new(NAMESPACE, namespace_line(namespace))
            await asyncio.sleep(_POLL)
        msg = f"not gone within {_PATIENCE:g} s: the namespace {NAMESPACE}"
        raise DemoError(msg)
