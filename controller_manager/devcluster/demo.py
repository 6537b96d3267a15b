"""The demo: creates sample deployments, changes them, and deletes everything."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS, Deployment
from controller_manager.api.core.v1 import NAMESPACES, Namespace
from controller_manager.api.meta import annotations_of, key_of
from controller_manager.api.workloads import desired_replicas
from controller_manager.client.client import (
    Client,
    DeleteOptions,
    PatchType,
    PropagationPolicy,
)
from controller_manager.client.errors import NotFound
from controller_manager.client.transport import Request, Transport
from controller_manager.clock import Clock
from controller_manager.devcluster.manifests import (
    Manifest,
    apply_manifests,
    read_manifests,
)

JSON = dict[str, Any]

NAMESPACE: Final = "shop"
_PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_REVISION: Final = "deployment.kubernetes.io/revision"
_POLL: Final = 0.1
_PATIENCE: Final = 40.0
"""Seconds that a step may take before the demo gives up."""
_PAUSE: Final = 2.0
"""Seconds for which a failure stays on the screen before it is repaired."""


class DemoError(Exception):
    """A step did not finish; the message names the step."""


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

    def __init__(self, transport: Transport, clock: Clock, console: Console) -> None:
        """Take the transport to the cluster, and the console."""
        self._transport = transport
        self._client = Client(transport, clock)
        self._clock = clock
        self._console = console
        self._summary = Summary()
        self._shown: dict[str, str] = {}
        self._began = clock.monotonic()

    async def run(self) -> Summary:
        """Play all steps; raises DemoError if one does not finish."""
        manifests = sample_manifests()
        await self._step(
            f"Apply {len(manifests)} objects from devcluster/samples",
            lambda: self._apply(manifests),
            _all_complete,
        )
        await self._step(
            "Update the image of web to nginx:1.29",
            lambda: self._set_image("web", "nginx:1.29"),
            _all_complete,
        )
        await self._step(
            "Update web again, to an image that cannot be pulled",
            lambda: self._set_image("web", "broken:1.30"),
            _is_stuck,
            self._show_waiting,
        )
        await self._step("Roll web back", lambda: self._roll_back("web"), _all_complete)
        await self._step(
            "Scale web from 6 to 10 and worker from 4 to 2",
            self._scale_two,
            _all_complete,
        )
        await self._step(
            "Update cache, which must stop before it starts (Recreate)",
            lambda: self._set_image("cache", "redis:8.2"),
            _all_complete,
        )
        await self._step(
            "Delete worker, which goes once its pods have (--cascade=foreground)",
            lambda: self._delete("worker"),
            lambda left: "worker" not in {each.metadata.name for each in left},
        )
        await self._step(
            f"Delete the namespace {NAMESPACE} with all that is left in it",
            self._delete_namespace,
            lambda left: not left,
        )
        return self._summary

    async def _step(
        self,
        title: str,
        action: Callable[[], Awaitable[None]],
        is_done: Callable[[list[Deployment]], bool],
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._console.print(f"\n[bold]{title}[/bold]")
        started = self._clock.monotonic()
        await action()
        if self._console.is_terminal:
            with Live(console=self._console, refresh_per_second=10) as live:
                await self._follow(
                    title, is_done, lambda each: live.update(_table(each))
                )
        else:
            await self._follow(title, is_done, self._print_changes)
        if then is not None:
            await then()
        self._summary.steps.append((title, self._clock.monotonic() - started))

    async def _follow(
        self,
        title: str,
        is_done: Callable[[list[Deployment]], bool],
        show: Callable[[list[Deployment]], None],
    ) -> None:
        deadline = self._clock.monotonic() + _PATIENCE
        while True:
            page = await self._client.list_page(DEPLOYMENTS, NAMESPACE)
            show(page.items)
            if is_done(page.items):
                return
            if self._clock.monotonic() > deadline:
                msg = f"not finished within {_PATIENCE:g} s: {title}"
                raise DemoError(msg)
            await asyncio.sleep(_POLL)

    async def _show_waiting(self) -> None:
        """Wait until each new pod has a waiting reason; show it for a moment.

        Raises DemoError if a pod gets no reason in time.
        """
        deadline = self._clock.monotonic() + _PATIENCE
        while True:
            answer = await self._transport.request(Request("GET", _PODS_PATH))
            pods = [each for each in _items(answer.body) if not _has_started(each)]
            reasons = {each["metadata"]["name"]: _waiting_reason(each) for each in pods}
            for name, reason in reasons.items():
                if reason:
                    self._print_if_new(f"{name}  {reason}", name)
            if reasons and all(reasons.values()):
                await asyncio.sleep(_PAUSE)
                return
            if self._clock.monotonic() > deadline:
                msg = f"no reason within {_PATIENCE:g} s why pods do not start"
                raise DemoError(msg)
            await asyncio.sleep(_POLL)

    def _print_changes(self, deployments: list[Deployment]) -> None:
        for deployment in deployments:
            self._print_if_new(_line(deployment), key_of(deployment))

    def _print_if_new(self, line: str, key: str) -> None:
        if self._shown.get(key) != line:
            self._shown[key] = line
            elapsed = self._clock.monotonic() - self._began
            self._print(f"{elapsed:6.1f}s  {line}")

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)

    # The steps of a user of kubectl

    async def _apply(self, manifests: list[Manifest]) -> None:
        await apply_manifests(self._transport, manifests, self._report)

    def _report(self, manifest: Manifest) -> None:
        if not self._console.is_terminal:
            self._print(f"         {manifest.kind.singular}/{manifest.name} created")

    async def _set_image(self, name: str, image: str) -> None:
        containers = [{"name": name, "image": image}]
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        await self._client.patch(DEPLOYMENTS, NAMESPACE, name, patch)

    async def _roll_back(self, name: str) -> None:
        """Restore the template of the previous revision, as rollout undo does."""
        deployment = await self._client.get(DEPLOYMENTS, NAMESPACE, name)
        current = int(annotations_of(deployment.metadata).get(_REVISION, "0"))
        page = await self._client.list_page(REPLICASETS, NAMESPACE)
        for replica_set in page.items:
            metadata = replica_set.metadata
            owners = metadata.owner_references or ()
            revision = int(annotations_of(metadata).get(_REVISION, "0"))
            if owners and owners[0].name == name and revision == current - 1:
                obj = await self._client.get_json(REPLICASETS, NAMESPACE, metadata.name)
                template = obj["spec"]["template"]
                template["metadata"]["labels"].pop("pod-template-hash", None)
                patch = [{"op": "replace", "path": "/spec/template", "value": template}]
                await self._client.patch(
                    DEPLOYMENTS, NAMESPACE, name, patch, PatchType.JSON
                )
                return
        msg = f"deployment {name} has no revision {current - 1} to roll back to"
        raise DemoError(msg)

    async def _delete(self, name: str) -> None:
        options = DeleteOptions(propagation_policy=PropagationPolicy.FOREGROUND)
        await self._client.delete(DEPLOYMENTS, NAMESPACE, name, options)

    async def _delete_namespace(self) -> None:
        await self._client.delete(NAMESPACES, "", NAMESPACE)
        deadline = self._clock.monotonic() + _PATIENCE
        while self._clock.monotonic() < deadline:
            try:
                namespace = await self._client.get(NAMESPACES, "", NAMESPACE)
            except NotFound:
                return
            self._print_if_new(_namespace_line(namespace), NAMESPACE)
            await asyncio.sleep(_POLL)
        msg = f"not gone within {_PATIENCE:g} s: the namespace {NAMESPACE}"
        raise DemoError(msg)

    async def _scale_two(self) -> None:
        await self._client.update_scale(DEPLOYMENTS, NAMESPACE, "web", 10)
        await self._client.update_scale(DEPLOYMENTS, NAMESPACE, "worker", 2)


def _items(body: bytes) -> list[JSON]:
    items: list[JSON] = msgspec.json.decode(body)["items"]
    return items


def _has_started(pod: JSON) -> bool:
    return bool(pod["status"]["phase"] != "Pending")


def _waiting_reason(pod: JSON) -> str:
    """Return why a container waits, empty without a reason."""
    for container in pod["status"].get("containerStatuses", ()):
        if waiting := container["state"].get("waiting"):
            return f"{waiting['reason']}: {waiting['message']}"
    return ""


def _namespace_line(namespace: Namespace) -> str:
    """Return the line that shows a namespace's phase and conditions."""
    remaining = [
        each.message
        for each in namespace.status.conditions or ()
        if each.type == "NamespaceContentRemaining"
    ]
    why = remaining[0] if remaining else "about to be emptied"
    return f"{NAMESPACE}    {namespace.status.phase}  {why}"


def _is_complete(deployment: Deployment) -> bool:
    wanted, status = desired_replicas(deployment), deployment.status
    return (
        status.observed_generation >= deployment.metadata.generation
        and status.updated_replicas == wanted
        and status.replicas == wanted
        and status.available_replicas == wanted
        and not status.terminating_replicas
    )


def _all_complete(deployments: list[Deployment]) -> bool:
    return bool(deployments) and all(map(_is_complete, deployments))


def _is_stuck(deployments: list[Deployment]) -> bool:
    """Tell whether web has new pods that do not start, and still all its old ones."""
    web = next(each for each in deployments if each.metadata.name == "web")
    return (
        web.status.observed_generation >= web.metadata.generation
        and web.status.updated_replicas > 0
        and web.status.unavailable_replicas == web.status.updated_replicas
    )


def _image(deployment: Deployment) -> str:
    spec: JSON = msgspec.json.decode(deployment.spec.template.spec)
    return ", ".join(each["image"] for each in spec["containers"])


def _condition(deployment: Deployment) -> str:
    for each in deployment.status.conditions or ():
        if each.type == "Progressing":
            return each.reason
    return "-"


def _line(deployment: Deployment) -> str:
    wanted, status = desired_replicas(deployment), deployment.status
    return (
        f"{deployment.metadata.name:<7} ready {status.ready_replicas}/{wanted}  "
        f"up-to-date {status.updated_replicas}  available {status.available_replicas}  "
        f"terminating {status.terminating_replicas or 0}  {_image(deployment)}  "
        f"{_condition(deployment)}"
    )


def _table(deployments: list[Deployment]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("NAME", "READY", "UP-TO-DATE", "AVAILABLE", "IMAGE", "", "PROGRESS"):
        table.add_column(title)
    for each in deployments:
        wanted, status = desired_replicas(each), each.status
        style = "green" if _is_complete(each) else "yellow"
        done = min(status.updated_replicas, status.available_replicas)
        table.add_row(
            f"[{style}]{each.metadata.name}[/]",
            f"{status.ready_replicas}/{wanted}",
            str(status.updated_replicas),
            str(status.available_replicas),
            _image(each),
            ProgressBar(total=max(wanted, 1), completed=done, width=20),
            _condition(each),
        )
    return table
