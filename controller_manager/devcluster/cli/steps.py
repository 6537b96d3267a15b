"""The demo: applies samples, changes them as a user, shows the controllers' work."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

import msgspec
from kubernetes_asyncio import client, utils
from rich.console import Console

from controller_manager.api.apps.v1 import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.autoscaling.v2 import HORIZONTAL_POD_AUTOSCALERS
from controller_manager.api.batch.v1 import CRON_JOBS, JOBS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import NAMESPACES, Namespace
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource
from controller_manager.api.scalars import format_time
from controller_manager.cli.failure import Failure
from controller_manager.cli.subcommands import Explain
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Transport
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import Clock, SystemClock
from controller_manager.devcluster.admission.plugins import ON_BY_DEFAULT
from controller_manager.devcluster.cluster import (
    ClusterOptions,
    DevCluster,
    controllers_over_https,
    embedded_config,
)
from controller_manager.devcluster.manifests import Manifest, read_manifests
from controller_manager.observability.defects import log_loop_errors
from controller_manager.observability.logs import Logger
from controller_manager.options.config import Config
from controller_manager.runtime.registry import Registry
from controller_manager.version import COMMAND_USER_AGENT

from .rows import ROWS, Row, Screen, all_complete

# The user of the demo: changes workloads by a client of kubernetes_asyncio.

NAMESPACE: Final = "shop"
FEWEST: Final = 2
MOST: Final = 6
LITTLE: Final = "600m"
MUCH: Final = "3"

_REVISION: Final = "deployment.kubernetes.io/revision"
_EACH: Final = "500m"
_AUTOSCALER: Final[JSON] = {
    "metadata": {"name": "worker"},
    "spec": {
        "scaleTargetRef": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "worker",
        },
        "minReplicas": FEWEST,
        "maxReplicas": MOST,
        "metrics": [
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "AverageValue", "averageValue": _EACH},
                },
            }
        ],
        # By default it waits for five minutes before it removes pods.
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    },
}


class User:
    """Changes the workloads of the demo; raises ApiException for a refusal."""

    def __init__(self, api: client.ApiClient) -> None:
        """Take the client; its caller closes it."""
        self._api = api
        # Their annotations have only models as bodies; dictionaries serve as well.
        self._core: Any = client.CoreV1Api(api)
        self._apps: Any = client.AppsV1Api(api)
        self._batch: Any = client.BatchV1Api(api)
        self._autoscaling: Any = client.AutoscalingV2Api(api)

    async def create(self, manifest: Manifest) -> None:
        """Create the object of a manifest."""
        await utils.create_from_dict(
            self._api,
            manifest.obj,
            namespace=manifest.namespace,
            field_validation="Strict",
        )

    async def set_image(self, deployment: str, image: str) -> None:
        """Update the image of a deployment's container, which has its name."""
        patch = _image(deployment, image)
        await self._apps.patch_namespaced_deployment(deployment, NAMESPACE, patch)

    async def update_two(self) -> None:
        """Update the images of the stateful set and of the daemon set."""
        patch = _image("db", "postgres:18")
        await self._apps.patch_namespaced_stateful_set("db", NAMESPACE, patch)
        patch = _image("agent", "example.com/shop/agent:1.1")
        await self._apps.patch_namespaced_daemon_set("agent", NAMESPACE, patch)

    async def roll_back(self, name: str) -> None:
        """Restore the template of the previous revision, as rollout undo does.

        Raises LookupError if there is none.
        """
        deployment = await self._apps.read_namespaced_deployment(name, NAMESPACE)
        before = int(deployment.metadata.annotations[_REVISION]) - 1
        listed = await self._apps.list_namespaced_replica_set(NAMESPACE)
        for replica_set in listed.items:
            if _owner(replica_set) == name and _revision(replica_set) == before:
                template = replica_set.spec.template
                template.metadata.labels.pop("pod-template-hash", None)
                patch = [{"op": "replace", "path": "/spec/template", "value": template}]
                body = self._api.sanitize_for_serialization(patch)
                await self._apps.patch_namespaced_deployment(name, NAMESPACE, body)
                return
        raise LookupError(f"deployment {name} has no revision {before} to roll back to")

    async def scale(self, deployment: str, replicas: int) -> None:
        """Set the replicas of a deployment."""
        await self._apps.patch_namespaced_deployment_scale(
            deployment, NAMESPACE, {"spec": {"replicas": replicas}}
        )

    async def set_last_run(self, when: datetime) -> None:
        """Let the cron job have run then for the last time."""
        await self._batch.patch_namespaced_cron_job_status(
            "report", NAMESPACE, {"status": {"lastScheduleTime": format_time(when)}}
        )

    async def load(self, cpu: str) -> None:
        """Let the pods of worker share a load of CPU."""
        patch = {"metadata": {"annotations": {"devcluster/cpu": f"total:{cpu}"}}}
        await self._apps.patch_namespaced_deployment("worker", NAMESPACE, patch)

    async def autoscale(self) -> None:
        """Load worker with much, and create an autoscaler for it."""
        await self.load(MUCH)
        await self._autoscaling.create_namespaced_horizontal_pod_autoscaler(
            NAMESPACE, _AUTOSCALER
        )

    async def delete_autoscaler(self) -> None:
        """Delete the autoscaler of worker."""
        await self._autoscaling.delete_namespaced_horizontal_pod_autoscaler(
            "worker", NAMESPACE
        )

    async def delete_worker(self) -> None:
        """Delete worker once its pods have gone."""
        await self._apps.delete_namespaced_deployment(
            "worker", NAMESPACE, propagation_policy="Foreground"
        )

    async def delete_db(self) -> None:
        """Delete the stateful set."""
        await self._apps.delete_namespaced_stateful_set(
            "db", NAMESPACE, propagation_policy="Background"
        )

    async def delete_namespace(self) -> None:
        """Delete the namespace with all that is in it."""
        await self._core.delete_namespace(NAMESPACE)


def _image(name: str, image: str) -> JSON:
    containers = [{"name": name, "image": image}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def _owner(replica_set: client.V1ReplicaSet) -> str:
    owners = replica_set.metadata.owner_references or []
    return str(owners[0].name) if owners else ""


def _revision(replica_set: client.V1ReplicaSet) -> int:
    return int((replica_set.metadata.annotations or {}).get(_REVISION, "0"))


# The progress of a step

_EVERY_KIND: Final = frozenset(
    ("cronjob", "daemonset", "deployment", "job", "statefulset")
)
"""The kinds of the samples."""


def items_of(body: bytes) -> list[JSON]:
    """Return the items of a list."""
    items: list[JSON] = msgspec.json.decode(body)["items"]
    return items


def has_started(pod: JSON) -> bool:
    """Tell whether a pod runs, or has run."""
    return bool(pod["status"]["phase"] != "Pending")


def waiting_reason(pod: JSON) -> str:
    """Return why a container cannot start, empty if it is being created."""
    for container in pod["status"].get("containerStatuses", ()):
        waiting = container["state"].get("waiting", {})
        if "message" in waiting and waiting["reason"] != "ErrImagePull":
            # The kubelet pulls the image again soon, so one line is enough.
            message = waiting["message"].partition(": ErrImagePull")[0]
            return f"{waiting['reason']}: {message}"
    return ""


def namespace_line(namespace: Namespace) -> str:
    """Return the line that shows a namespace's phase and conditions."""
    remaining = [
        each.message
        for each in namespace.status.conditions or ()
        if each.type == "NamespaceContentRemaining"
    ]
    why = remaining[0] if remaining else "about to be emptied"
    return f"{namespace.metadata.name}    {namespace.status.phase}  {why}"


def everything_runs(rows: Sequence[Row]) -> bool:
    """Tell whether all is rolled out, and the job has ended well."""
    kinds = {each.kind for each in rows}
    return kinds >= _EVERY_KIND and all_complete(rows)


def is_stuck(rows: Sequence[Row]) -> bool:
    """Tell whether web has new pods that do not start, and still all its old ones."""
    return any(each.name == "web" and each.is_stuck for each in rows)


def runs_on(rows: Sequence[Row], pods: int) -> bool:
    """Tell whether worker has so many pods, and its autoscaler wants no others."""
    about = [each for each in rows if each.name == "worker"]
    return all_complete(about) and {each.total for each in about} == {pods}


def has_caught_up(rows: Sequence[Row]) -> bool:
    """Tell whether the cron job has run, and all jobs have ended well."""
    runs = [each for each in rows if each.name.startswith("report-")]
    return bool(runs) and all_complete(rows)


# The steps: actions of a user, and the waits for their results

_PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_POLL: Final = 0.1
_PATIENCE: Final = 40.0
"""Seconds that a step may take before the demo gives up."""
_WIDTH: Final = 70
"""Columns of an explanation, which is indented."""
_PAUSE: Final = 2.0
"""Seconds for which a failure stays on the screen before it is repaired."""
_ALL: Final = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS)


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
        """Play all steps; raises Failure if one does not finish."""
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
                    raise Failure([msg])
                await asyncio.sleep(_POLL)
        if then is not None:
            await then()
        self._summary.steps.append((title, self._clock.monotonic() - started))

    async def _rows(self, kinds: Sequence[Resource[Any]]) -> list[Row]:
        rows: list[Row] = []
        for kind in kinds:
            page = await self._client.list_page(kind, NAMESPACE)
            rows += map(ROWS[kind.plural], page.items)
        return rows

    async def _show_broken(self) -> None:
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

        Raises Failure if a pod gets no reason in time.
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
                raise Failure([msg])
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
            raise Failure([str(error)]) from None

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
        raise Failure([msg])


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
        async with controllers_over_https(cluster, demo_config(build), logger) as _:
            transport = HTTPTransport(cluster.credentials(), COMMAND_USER_AGENT)
            try:
                summary = await Demo(transport, SystemClock(), console, explain).run()
            finally:
                await transport.close()
    console.print("\n[bold]What happened[/bold]")
    for title, seconds in summary.steps:
        console.print(f"  {seconds:5.1f}s  {title}", highlight=False)
    total = sum(seconds for _, seconds in summary.steps)
    console.print(f"  {total:5.1f}s  altogether", highlight=False)
    console.print(
        "\nGo on with a cluster of your own:\n"
        "  controller-manager devcluster -- bash\n"
        "  kubectl create deployment web --image=nginx --replicas=3\n"
        "  kubectl get deployments --watch\n"
        "  controller-manager explain deploy/web",
        highlight=False,
        soft_wrap=True,
    )
