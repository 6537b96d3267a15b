"""Jobs and pods: as they are cached, and on a cluster with a user of them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.controllers.batch.job.pods import FINALIZER, Tally, tally_of
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers import builders
from tests.controllers.user import User

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def text(seconds: int) -> str:
    """Return an instant as the API server writes it."""
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(status: JSON | None = None, restart: str = "Never", **spec: Any) -> Job:
    """Return a job; with `indexes` it is an indexed one of so many completions."""
    if (indexes := spec.pop("indexes", None)) is not None:
        spec |= {"completionMode": "Indexed", "completions": indexes}
    containers = [{"name": "c", "image": "app:v1"}]
    obj = {
        "metadata": {"name": "j", "namespace": "default", "uid": "uid-j"},
        "spec": {
            "parallelism": 2,
            "backoffLimit": 6,
            "selector": {"matchLabels": {"job": "j"}},
            "template": {
                "metadata": {"labels": {"job": "j"}},
                "spec": {"containers": containers, "restartPolicy": restart},
            },
            **spec,
        },
        "status": {"startTime": text(0), **(status or {})},
    }
    return msgspec.json.decode(msgspec.json.encode(obj), type=Job)


def pod(name: str, phase: str = "Running", **fields: Any) -> Pod:
    """Return a pod of a job with the finalizer; `fields` change that.

    `index` is its completion index; `failures` how often that had failed before.
    """
    code = fields.pop("code", None)
    return builders.pod(
        name,
        phase=phase,
        created=text(fields.pop("created", 0)),
        annotations=_annotations(fields),
        finalizers=[FINALIZER] if fields.pop("tracked", True) else [],
        deleted=text(30) if fields.pop("deleting", False) else None,
        ready=fields.pop("ready", None),
        state={} if code is None else {"terminated": {"exitCode": code}},
        **fields,
    )


_PHASES = {each.lower(): each for each in ("Pending", "Succeeded", "Failed", "Unknown")}


def pods_of(words: str) -> list[Pod]:
    """Return the pods of "r, f failed code=9 untracked": names, states and numbers.

    Pods run and have the finalizer, unless they are `untracked`.
    """
    found = []
    for name, *states in (each.split() for each in words.split(",") if each):
        fields: dict[str, Any] = {}
        for state in states:
            key, _, number = state.partition("=")
            if number:
                fields[key] = int(number)
            elif key in _PHASES:
                fields["phase"] = _PHASES[key]
            else:
                fields |= {"untracked": {"tracked": False}}.get(key, {key: True})
        found.append(pod(name, **fields))
    return found


def make_tally(subject: Job, pods: Iterable[Pod] = (), **more: Any) -> Tally:
    """Return the tally of a job that has these pods."""
    return tally_of(subject, tuple(pods), **more)


def running(count: int) -> list[Pod]:
    return [pod(f"r{number}") for number in range(count)]


def standing(condition: str, reason: str = "R", message: str = "M") -> JSON:
    """Return the status of a job with a true condition."""
    return {
        "conditions": [
            {"type": condition, "status": "True", "reason": reason, "message": message}
        ]
    }


def names(pods: Iterable[Pod]) -> list[str]:
    return [each.metadata.name for each in pods]


def job_pod(name: str = "p", **fields: Any) -> Pod:
    """Return a failed pod of a job; `fields` change that."""
    inits = {"initContainerStatuses": fields.pop("init_containers", [])}
    specs = {"initContainers": fields.pop("init_specs", [])}
    known = {"phase": "Failed", "conditions": [], "containers": [], **fields}
    annotations = _annotations(known)
    return builders.pod(
        name, annotations=annotations, spec=specs, status=inits, **known
    )


def _annotations(fields: JSON) -> dict[str, str]:
    prefix = "batch.kubernetes.io/job-"
    return {
        f"{prefix}{name}": str(value)
        for name, value in (
            ("completion-index", fields.pop("index", None)),
            ("index-failure-count", fields.pop("failures", None)),
            ("index-ignored-failure-count", fields.pop("ignored", None)),
        )
        if value is not None
    }


def ended(name: str = "c", code: int = 1, at: str | None = None) -> JSON:
    return {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": at}}}


def container_runs(name: str = "c") -> JSON:
    return {"name": name, "state": {"running": {}}}


POD_SPEC: JSON = {
    "restartPolicy": "Never",
    "containers": [{"name": "c", "image": "app:v1"}],
}

LONG_AGO = "2025-12-31T00:00:00Z"


def job_config(**generic: Any) -> Config:
    """Return the config of a manager that runs the job controller, others if named."""
    return make_config(**{"controllers": ("job-controller",), **generic})


class JobUser(User):
    """Creates jobs, and ends their pods."""

    async def run(self, name: str = "j", **spec: Any) -> Job:
        whole = {"template": {"spec": POD_SPEC}, **spec}
        body = {"metadata": {"name": name}, "spec": whole}
        made: Job = await self.create(JOBS, body)
        return made

    def selecting(self, **labels: str) -> JSON:
        """Return the part of a spec by which a job selects pods with these labels."""
        return {
            "manualSelector": True,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": POD_SPEC},
        }

    async def add_pod(self, name: str, pool: str = "", **metadata: Any) -> None:
        """Create a pod that is of no job."""
        labels = {"pool": pool} if pool else {}
        whole = {"name": name, "labels": labels, **metadata}
        await self.create(PODS, {"metadata": whole, "spec": POD_SPEC})

    async def change(self, name: str = "j", **spec: Any) -> None:
        await self.patch(JOBS, name, {"spec": spec})

    async def job(self, name: str = "j") -> Job:
        return await self.client.get(JOBS, "default", name)

    async def ends(self, name: str = "j") -> list[tuple[str, str]]:
        """Return type and reason of true conditions in order, without Suspended."""
        conditions = (await self.job(name)).status.conditions or ()
        return [
            (each.type, each.reason) for each in conditions if each.status == "True"
        ]

    async def end(self, *pods: Pod, code: int = 0, at: str = LONG_AGO) -> None:
        """End the only container of pods, a day ago by default: no backoff lasts."""
        ended = {"exitCode": code, "startedAt": at, "finishedAt": at}
        state = {"terminated": ended}
        container = {"name": "c", "image": "i", "imageID": "i", "state": state}
        phase = "Failed" if code else "Succeeded"
        for pod in pods:
            name = pod.metadata.name
            await self.report(name, phase=phase, containerStatuses=[container])

    async def make_pods_ready(self, pods: Sequence[Pod]) -> None:
        """Write the status of pods that run and are ready."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}
        for pod in pods:
            await self.report(pod.metadata.name, phase="Running", conditions=[ready])

    async def waiting(self) -> list[Pod]:
        """Return the pods that have not begun to run."""
        return [each for each in await self.pods() if each.status.phase == "Pending"]

    def now(self) -> str:
        return format_time(self.cluster.clock.now())


class Watcher(JobUser):
    """Plays scenarios: acts on pods by their place in the order of their names."""

    async def submit(self, name: str = "j", **spec: Any) -> None:
        await self.run(name, **spec)

    async def submit_selecting(self, pool: str, **spec: Any) -> None:
        await self.run(**spec, **self.selecting(pool=pool))

    async def ready(self, place: str) -> None:
        await self.make_pods_ready([(await self.pods())[int(place)]])

    async def finish(self, place: str, code: int = 0, *, now: bool = False) -> None:
        """End a pod a day ago, or now."""
        pod = (await self.pods())[int(place)]
        await self.end(pod, code=code, at=self.now() if now else LONG_AGO)

    async def finish_all(self, code: int = 0) -> None:
        await self.end(*await self.pods(), code=code)

    async def finish_waiting(self, code: int = 0, *, now: bool = False) -> None:
        at = self.now() if now else LONG_AGO
        await self.end(*await self.waiting(), code=code, at=at)

    async def delete_first(self) -> None:
        await self.delete(PODS, (await self.pods())[0].metadata.name)

    async def delete_pods(self) -> None:
        for pod in await self.pods():
            await self.delete(PODS, pod.metadata.name)

    async def poke_pods(self, value: str) -> None:
        for pod in await self.pods():
            labels = {"metadata": {"labels": {"poke": value}}}
            await self.patch(PODS, pod.metadata.name, labels)

    async def delete_job(self) -> None:
        await self.delete(JOBS, "j", "Background")

    async def widen(self, number: str) -> None:
        """Label the job, and raise its parallelism."""
        await self.patch(JOBS, "j", {"metadata": {"labels": {"n": number}}})
        await self.change(parallelism=int(number) + 1)

    async def counts(self) -> tuple[int, int, int]:
        """Return how many pods are active, succeeded and failed."""
        status = (await self.job()).status
        return status.active or 0, status.succeeded or 0, status.failed or 0

    async def last_end(self) -> tuple[str, str]:
        return (await self.ends())[-1]

    async def has_failed(self) -> bool:
        return any(kind == "Failed" for kind, _ in await self.ends())

    async def has_event(self, reason: str) -> bool:
        return bool(await self.events(reason))

    async def finalizers_of(self, place: str) -> tuple[str, ...] | None:
        return (await self.pods())[int(place)].metadata.finalizers
