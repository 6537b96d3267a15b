"""The actions of users on jobs: run again, suspend, resume, make larger or smaller."""

import asyncio
import copy
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.batch.job.stored import ENDS, FINALIZER, has, is_tracked
from tests.simulation.objects import controller_of
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.world import World


NAMESPACE: Final = "default"
_MANY: Final = 1000
"""A backoff limit that faults never reach, so that the end does not depend on them."""


def job_json(
    name: str,
    seconds: float | str = 20,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> JSON:
    """Return a job whose pods run for some seconds.

    More annotations tell the nodes how the pods end.
    """
    template = {
        "metadata": {
            "labels": {"app": name},
            "annotations": {"devcluster/run-seconds": str(seconds)}
            | dict(annotations or {}),
        },
        "spec": {
            "containers": [{"name": "c", "image": "app:v1"}],
            "restartPolicy": "Never",
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": _MANY, "template": template, **spec},
    }


def _on_exit_code(action: str, code: int) -> JSON:
    requirement = {"operator": "In", "values": [code]}
    return {"rules": [{"action": action, "onExitCodes": requirement}]}


_INDEXED: Final[JSON] = {"completionMode": "Indexed"}

JOBS: Final[Mapping[str, JSON]] = {
    each["metadata"]["name"]: each
    for each in (
        job_json("counted", completions=6, parallelism=3),
        job_json("indexed", completions=5, parallelism=2, **_INDEXED),
        job_json("elastic", seconds=40, completions=3, parallelism=3, **_INDEXED),
        job_json("queue", parallelism=2),
        job_json(
            "replaced",
            completions=4,
            parallelism=2,
            podReplacementPolicy="Failed",
        ),
        job_json(
            "one-fails",
            annotations={
                "devcluster/failing-indexes": "1",
                "devcluster/exit-code": "9",
            },
            completions=3,
            parallelism=2,
            backoffLimitPerIndex=_MANY,
            podFailurePolicy=_on_exit_code("FailIndex", 9),
            **_INDEXED,
        ),
        job_json(
            "first-suffices",
            completions=3,
            parallelism=1,
            successPolicy={"rules": [{"succeededCount": 1}]},
            **_INDEXED,
        ),
        job_json(
            "fails",
            annotations={"devcluster/exit-code": "1"},
            completions=2,
            parallelism=2,
            backoffLimit=2,
        ),
        job_json(
            "fails-at-once",
            annotations={"devcluster/exit-code": "42"},
            completions=2,
            parallelism=2,
            podFailurePolicy=_on_exit_code("FailJob", 42),
        ),
        job_json("too-long", "forever", parallelism=2, activeDeadlineSeconds=90),
    )
}
"""These jobs end in the same way under any faults."""

_AT_START: Final = ("counted", "indexed", "one-fails", "fails-at-once")
_RESIZED: Final = ("counted", "indexed", "replaced", "one-fails")
_CHANGES: Final = ("again", "again", "again", "suspend", "suspend", "parallelism")
_POLICIES: Final = ("Background", "Background", "Foreground", "Orphan")


class JobUsers(Workload):
    """Users of many kinds of jobs in one namespace; other namespaces have one job."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"users of jobs {world.seed}")

    def create_objects(self, namespace: str) -> None:
        for name in _AT_START if namespace == NAMESPACE else ("counted",):
            self._create(namespace, name)

    def _create(self, namespace: str, name: str) -> None:
        self.world.server.objects.create(
            self.world.kind("jobs"), namespace, copy.deepcopy(JOBS[name])
        )

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            match rng.choice(_CHANGES):
                case "again":
                    await self._run_again(rng.choice(tuple(JOBS)), rng)
                case "suspend":
                    self._edit(rng.choice(tuple(JOBS)), _toggle)
                case "parallelism":
                    number = rng.randrange(1, 5)
                    self._edit(
                        rng.choice(_RESIZED),
                        lambda spec: spec.update(parallelism=number),  # noqa: B023
                    )

    async def _run_again(self, name: str, rng: random.Random) -> None:
        """Delete a job if it is there, in any state, and create it again."""
        policy, size = rng.choice(_POLICIES), rng.randrange(2, 6)
        job = self.world.find("jobs", NAMESPACE, name)
        if job is not None:
            self.world.delete("jobs", job, policy=policy)
            await self.world.until_gone("jobs", NAMESPACE, name)
        self._create(NAMESPACE, name)
        if name == "elastic":
            # No pod has ended yet, under any faults.
            await asyncio.sleep(5)
            resized = {"completions": size, "parallelism": size}
            self._edit(name, lambda spec: spec.update(resized))

    def _edit(self, name: str, edit: Callable[[JSON], None]) -> None:
        """Change the spec of a job that has not ended."""
        job = self.world.find("jobs", NAMESPACE, name)
        if job is not None and not has(job, *ENDS):
            self.world.change("jobs", job, lambda obj: edit(obj["spec"]))

    async def clean_up(self) -> None:
        """Resume all jobs, and release pods that another owner took.

        No controller removes the finalizer of these pods, as with upstream.
        """
        for name in JOBS:
            self._edit(name, _resume)
        jobs = {each["metadata"]["uid"] for each in self.world.stored("jobs")}
        for pod in self.world.stored("pods"):
            if is_tracked(pod) and controller_of(pod) not in (*jobs, ""):
                self.world.change("pods", pod, _release)


def _toggle(spec: JSON) -> None:
    spec["suspend"] = not spec.get("suspend", False)


def _resume(spec: JSON) -> None:
    spec["suspend"] = False


def _release(pod: JSON) -> None:
    pod["metadata"]["finalizers"].remove(FINALIZER)
