"""A user of jobs, and the kubelets, on a cluster in memory."""

from collections.abc import Sequence
from typing import Any

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.user import User

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
        """Create a job; return it as stored."""
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
        """Change the spec of a job."""
        await self.patch(JOBS, name, {"spec": spec})

    async def job(self, name: str = "j") -> Job:
        """Return a job as stored."""
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
        status = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [
                {
                    "name": "c",
                    "image": "i",
                    "imageID": "i",
                    "state": {"terminated": ended},
                }
            ],
        }
        for pod in pods:
            await self._set_status(pod, status)

    async def make_pods_ready(self, pods: Sequence[Pod]) -> None:
        """Write the status of pods that run and are ready."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}
        for pod in pods:
            await self._set_status(pod, {"phase": "Running", "conditions": [ready]})

    async def _set_status(self, pod: Pod, status: JSON) -> None:
        name = pod.metadata.name
        patch = {"status": status}
        await self.client.patch(PODS, "default", name, patch, subresource="status")

    async def waiting(self) -> list[Pod]:
        """Return the pods that have not begun to run."""
        return [each for each in await self.pods() if each.status.phase == "Pending"]

    def now(self) -> str:
        """Return the time as the kubelets see it."""
        return format_time(self.cluster.clock.now())
