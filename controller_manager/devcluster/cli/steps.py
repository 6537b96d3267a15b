"""The demo: applies samples, changes them as a user, shows the controllers' work."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from http import HTTPStatus
from importlib.resources import files
from typing import Final

import msgspec
from rich.console import Console

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.cli.failure import Failure
from controller_manager.cli.subcommands import Explain
from controller_manager.client.rest.errors import error_from_response, is_success
from controller_manager.client.rest.transport import Request, Transport
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import Clock, SystemClock
from controller_manager.devcluster.admission import ON_BY_DEFAULT
from controller_manager.devcluster.cluster import (
    ClusterOptions,
    DevCluster,
    controllers_over_https,
    embedded_config,
)
from controller_manager.devcluster.manifests import (
    Manifest,
    apply_manifests,
    read_manifests,
)
from controller_manager.observability.defects import log_loop_errors
from controller_manager.observability.logs import Logger
from controller_manager.options.config import Config
from controller_manager.runtime.registry import Registry
from controller_manager.version import COMMAND_USER_AGENT

from .rows import Row, Screen, row_of

# The progress of a step

_EVERY_KIND: Final = frozenset(
    ("cronjob", "daemonset", "deployment", "job", "statefulset")
)
"""The kinds of the samples."""


def _all_complete(rows: Sequence[Row]) -> bool:
    return bool(rows) and all(each.is_complete for each in rows)


def _everything_runs(rows: Sequence[Row]) -> bool:
    return {each.kind for each in rows} >= _EVERY_KIND and _all_complete(rows)


def _is_stuck(rows: Sequence[Row]) -> bool:
    """Tell whether web has new pods that do not start, and still all its old ones."""
    return any(each.name == "web" and each.is_stuck for each in rows)


def _runs_on(rows: Sequence[Row], pods: int) -> bool:
    """Tell whether worker has so many pods, and its autoscaler wants no others."""
    about = [each for each in rows if each.name == "worker"]
    return _all_complete(about) and {each.total for each in about} == {pods}


def _has_caught_up(rows: Sequence[Row]) -> bool:
    """Tell whether the cron job has run, and all jobs have ended well."""
    is_run = any(each.name.startswith("report-") for each in rows)
    return is_run and _all_complete(rows)


def _waiting_reason(pod: JSON) -> str:
    """Return why a container cannot start, empty if it is being created."""
    for container in pod["status"].get("containerStatuses", ()):
        waiting = container["state"].get("waiting", {})
        if "message" in waiting and waiting["reason"] != "ErrImagePull":
            # The kubelet pulls the image again soon, so one line is enough.
            message = waiting["message"].partition(": ErrImagePull")[0]
            return f"{waiting['reason']}: {message}"
    return ""


# The steps: actions of a user, and the waits for their results

_NAMESPACE: Final = "shop"
_VERSIONS: Final = {
    "cronjobs": "apis/batch/v1",
    "daemonsets": "apis/apps/v1",
    "deployments": "apis/apps/v1",
    "horizontalpodautoscalers": "apis/autoscaling/v2",
    "jobs": "apis/batch/v1",
    "persistentvolumeclaims": "api/v1",
    "pods": "api/v1",
    "replicasets": "apis/apps/v1",
    "statefulsets": "apis/apps/v1",
}
_ALL: Final = ("deployments", "statefulsets", "daemonsets", "jobs", "cronjobs")
_REVISION: Final = "deployment.kubernetes.io/revision"
_FEWEST, _MOST = 2, 6
_LITTLE, _MUCH = "600m", "3"
_CPU: Final = {
    "name": "cpu",
    "target": {"type": "AverageValue", "averageValue": "500m"},
}
_AUTOSCALER: Final[JSON] = {
    "metadata": {"name": "worker"},
    "spec": {
        "scaleTargetRef": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "worker",
        },
        "minReplicas": _FEWEST,
        "maxReplicas": _MOST,
        "metrics": [{"type": "Resource", "resource": _CPU}],
        # By default it waits for five minutes before it removes pods.
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    },
}
_POLL: Final = 0.1
_PATIENCE: Final = 40.0
"""Seconds that a step may take before the demo gives up."""
_WIDTH: Final = 70
"""Columns of an explanation, which is indented."""
_PAUSE: Final = 2.0
"""Seconds for which a failure stays on the screen before it is repaired."""


def sample_manifests() -> list[Manifest]:
    """Return the objects of devcluster/samples, which belong to the package."""
    return read_manifests([files("controller_manager.devcluster") / "samples"])


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
        self._clock = clock
        self._screen = Screen(console, clock)
        self._steps: list[tuple[str, float]] = []

    async def run(self) -> list[tuple[str, float]]:
        """Play all steps; return them with the seconds that each took.

        Raises Failure if one does not finish.
        """
        manifests = sample_manifests()
        await self._step(
            f"Apply {len(manifests)} objects from devcluster/samples",
            lambda: apply_manifests(self._transport, manifests, self._screen.created),
            _everything_runs,
            kinds=_ALL,
        )
        await self._update_deployments()
        await self._step(
            "Update db from its last pod on, and agent node by node",
            self._update_two,
            _all_complete,
            kinds=("statefulsets", "daemonsets"),
        )
        await self._step(
            "Set the last run of report back by a day: it makes up for one run",
            self._miss_a_run,
            _has_caught_up,
            kinds=("cronjobs", "jobs"),
        )
        await self._follow_a_load()
        await self._step(
            "Delete worker, which goes once its pods have (--cascade=foreground)",
            lambda: self._delete("deployments/worker", "Foreground"),
            lambda left: "worker" not in {each.name for each in left},
        )
        await self._step(
            "Delete db and, as its policy wants, its claims (whenDeleted: Delete)",
            lambda: self._delete("statefulsets/db"),
            lambda left: not left,
            kinds=("statefulsets", "persistentvolumeclaims"),
        )
        await self._step(
            f"Delete the namespace {_NAMESPACE} with all that is left in it",
            self._delete_namespace,
            lambda left: not left,
            kinds=_ALL,
        )
        return self._steps

    async def _update_deployments(self) -> None:
        await self._step(
            "Update the image of web to nginx:1.29",
            lambda: self._set_image("deployments/web", "nginx:1.29"),
            _all_complete,
        )
        await self._step(
            "Update web again, to an image that cannot be pulled",
            lambda: self._set_image("deployments/web", "broken:1.30"),
            _is_stuck,
            then=self._show_broken,
        )
        await self._step("Roll web back", self._roll_back, _all_complete)
        await self._step(
            "Scale web from 6 to 10 and worker from 4 to 2",
            self._scale_two,
            _all_complete,
        )
        await self._step(
            "Update cache, which must stop before it starts (Recreate)",
            lambda: self._set_image("deployments/cache", "redis:8.2"),
            _all_complete,
        )

    async def _follow_a_load(self) -> None:
        kinds = ("horizontalpodautoscalers", "deployments")
        await self._step(
            f"Autoscale worker from {_FEWEST} to {_MOST} pods, and load it with "
            f"{_MUCH} cores",
            self._autoscale,
            lambda rows: _runs_on(rows, _MOST),
            kinds=kinds,
        )
        await self._step(
            f"Leave {_LITTLE} of the load: worker gets smaller again",
            lambda: self._load(_LITTLE),
            lambda rows: _runs_on(rows, _FEWEST),
            kinds=kinds,
            then=lambda: self._delete("horizontalpodautoscalers/worker"),
        )

    async def _step(
        self,
        title: str,
        action: Callable[[], Awaitable[object]],
        is_done: Callable[[Sequence[Row]], bool],
        *,
        kinds: Sequence[str] = ("deployments",),
        then: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._screen.title(title)
        started = self._clock.monotonic()
        await action()
        with self._screen.following() as show:

            async def has_ended() -> bool:
                found = [(kind, await self._items(kind)) for kind in kinds]
                rows = [row_of(kind, each) for kind, items in found for each in items]
                show(rows)
                return is_done(rows)

            await self._until(has_ended, f"not finished within {{}} s: {title}")
        if then is not None:
            await then()
        self._steps.append((title, self._clock.monotonic() - started))

    async def _until(self, is_done: Callable[[], Awaitable[bool]], late: str) -> None:
        """Look until it is done; raises Failure with the message `late`."""
        deadline = self._clock.monotonic() + _PATIENCE
        while not await is_done():
            if self._clock.monotonic() > deadline:
                raise Failure([late.format(f"{_PATIENCE:g}")])
            await asyncio.sleep(_POLL)

    async def _show_broken(self) -> None:
        late = "no reason within {} s why pods do not start"
        await self._until(self._shows_reasons, late)
        if self._explain is not None:
            command = f"controller-manager explain deploy/web -n {_NAMESPACE}"
            text = await self._explain(
                self._transport, self._clock, _NAMESPACE, "deploy/web", _WIDTH
            )
            self._screen.answer(command, text)
        await asyncio.sleep(_PAUSE)

    async def _shows_reasons(self) -> bool:
        """Show why new pods wait; tell whether each of them has a reason."""
        reasons = {
            each["metadata"]["name"]: _waiting_reason(each)
            for each in await self._items("pods")
            if each["status"]["phase"] == "Pending"
        }
        for name, reason in reasons.items():
            if reason:
                self._screen.line_if_new(name, f"{name}  {reason}")
        return bool(reasons) and all(reasons.values())

    # What the user does

    async def _send(
        self,
        method: str,
        what: str,
        body: JSON | None = None,
        media_type: str = "application/json",
    ) -> JSON:
        """Send a request about a resource and maybe a name; raises APIError."""
        version = _VERSIONS[what.partition("/")[0]]
        answer = await self._transport.request(
            Request(
                method,
                f"/{version}/namespaces/{_NAMESPACE}/{what}",
                headers={"content-type": media_type},
                body=None if body is None else msgspec.json.encode(body),
            )
        )
        if not is_success(answer.status):
            raise error_from_response(answer.status, answer.body, None)
        found: JSON = msgspec.json.decode(answer.body)
        return found

    async def _items(self, resource: str) -> list[JSON]:
        items: list[JSON] = (await self._send("GET", resource))["items"]
        return items

    async def _patch(self, what: str, patch: JSON) -> None:
        media_type = "application/strategic-merge-patch+json"
        await self._send("PATCH", what, patch, media_type)

    async def _delete(self, what: str, policy: str = "Background") -> None:
        await self._send("DELETE", what, {"propagationPolicy": policy})

    async def _set_image(self, what: str, image: str) -> None:
        """Update the image of a workload's container, which has its name."""
        containers = [{"name": what.partition("/")[2], "image": image}]
        template = {"spec": {"containers": containers}}
        await self._patch(what, {"spec": {"template": template}})

    async def _update_two(self) -> None:
        await self._set_image("statefulsets/db", "postgres:18")
        await self._set_image("daemonsets/agent", "example.com/shop/agent:1.1")

    async def _roll_back(self) -> None:
        """Restore the template of web's previous revision, as rollout undo does."""
        web = await self._send("GET", "deployments/web")
        before = int(web["metadata"]["annotations"][_REVISION]) - 1
        for each in await self._items("replicasets"):
            metadata, template = each["metadata"], each["spec"]["template"]
            is_of_web = metadata["ownerReferences"][0]["name"] == "web"
            if is_of_web and metadata["annotations"][_REVISION] == str(before):
                del template["metadata"]["labels"]["pod-template-hash"]
                web["spec"]["template"] = template
                await self._send("PUT", "deployments/web", web)
                return
        msg = f"deployment web has no revision {before} to roll back to"
        raise Failure([msg])

    async def _scale_two(self) -> None:
        for name, replicas in (("web", 10), ("worker", 2)):
            await self._patch(f"deployments/{name}", {"spec": {"replicas": replicas}})

    async def _miss_a_run(self) -> None:
        """Let the cron job have run a day ago for the last time, but not since."""
        last = format_time(self._clock.now() - timedelta(days=1, minutes=1))
        await self._patch(
            "cronjobs/report/status", {"status": {"lastScheduleTime": last}}
        )

    async def _load(self, cpu: str) -> None:
        """Let the pods of worker share a load of CPU."""
        annotations = {"devcluster/cpu": f"total:{cpu}"}
        await self._patch(
            "deployments/worker", {"metadata": {"annotations": annotations}}
        )

    async def _autoscale(self) -> None:
        await self._load(_MUCH)
        await self._send("POST", "horizontalpodautoscalers", _AUTOSCALER)

    async def _delete_namespace(self) -> None:
        path = f"/api/v1/namespaces/{_NAMESPACE}"
        await self._transport.request(Request("DELETE", path))

        async def is_gone() -> bool:
            answer = await self._transport.request(Request("GET", path))
            if answer.status == HTTPStatus.NOT_FOUND:
                return True
            self._screen.line_if_new(
                _NAMESPACE, _line_of(msgspec.json.decode(answer.body))
            )
            return False

        await self._until(
            is_gone, f"not gone within {{}} s: the namespace {_NAMESPACE}"
        )


def _line_of(namespace: JSON) -> str:
    """Return the line that shows the phase and the conditions of a namespace."""
    status = namespace["status"]
    remaining = [
        each["message"]
        for each in status.get("conditions", ())
        if each["type"] == "NamespaceContentRemaining"
    ]
    why = remaining[0] if remaining else "about to be emptied"
    return f"{_NAMESPACE}    {status['phase']}  {why}"


def demo_config(build: Registry) -> Config:
    """Return the config of the demo: its autoscaler looks at the load each second."""
    period = "horizontal-pod-autoscaler-sync-period"
    return embedded_config(build, 0, more={period: "1s"})


async def run_demo(
    build: Registry, logger: Logger, explain: Explain | None = None
) -> None:
    """Run a cluster with its controllers, play the demo, and print what happened.

    With `explain`, the demo shows why a broken rollout is stuck.
    """
    console = Console()
    log_loop_errors(logger)
    options = ClusterOptions(
        pod_start_delay=0.6,
        grace_scale=0.05,
        admission_plugins=ON_BY_DEFAULT,
        build=build,
    )
    async with DevCluster(options, SystemClock()) as cluster:
        console.print(
            f"A cluster of {options.nodes} nodes at {cluster.url}", highlight=False
        )
        async with controllers_over_https(cluster, demo_config(build), logger):
            transport = HTTPTransport(cluster.credentials(), COMMAND_USER_AGENT)
            try:
                steps = await Demo(transport, SystemClock(), console, explain).run()
            finally:
                await transport.close()
    console.print("\n[bold]What happened[/bold]")
    total = sum(seconds for _, seconds in steps)
    for title, seconds in (*steps, ("altogether", total)):
        console.print(f"  {seconds:5.1f}s  {title}", highlight=False)
    console.print(
        "\nGo on with a cluster of your own:\n"
        "  controller-manager devcluster -- bash\n"
        "  kubectl create deployment web --image=nginx --replicas=3\n"
        "  kubectl get deployments --watch\n"
        "  controller-manager explain deploy/web",
        highlight=False,
        soft_wrap=True,
    )
