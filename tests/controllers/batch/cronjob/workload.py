"""The actions of users on cron jobs, and jobs that they run themselves.

The jobs name another manager in `managedBy`: this module ends them, whether or not a
job controller runs.
"""

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.world import World


NAMESPACE: Final = "default"
MANAGED_BY: Final = "example.com/user"
_POLICIES: Final = {"backup": "Forbid", "mail": "Allow", "report": "Replace"}
"""The cron jobs, and their policies, which never change."""

_SCHEDULES: Final = (
    *("* * * * *", "*/2 * * * *", "0-59/3 * * * *", "@every 90s", "@every 20s"),
    "0,1,5 * * * *",
)
_SUCCESS: Final = ("SuccessCriteriaMet", "Complete")
_FAILURE: Final = ("FailureTarget", "Failed")


class CronJobUsers(Workload):
    """Users of a few cron jobs in one namespace; other namespaces have one."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"users of cron jobs {world.seed}")
        self._by_hand = 0

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            for name in _POLICIES:
                self._create(namespace, name, self._rng)
        else:
            rng = random.Random(f"{namespace} cron jobs {self.world.seed}")
            self._create(namespace, "backup", rng)

    def _create(self, namespace: str, name: str, rng: random.Random) -> None:
        spec = {
            "schedule": rng.choice(_SCHEDULES),
            "concurrencyPolicy": _POLICIES[name],
            "successfulJobsHistoryLimit": rng.choice([0, 1, 3]),
            "failedJobsHistoryLimit": rng.choice([0, 1]),
            "jobTemplate": {"spec": job_spec(name)},
        }
        self._store("cronjobs", namespace, {"metadata": {"name": name}, "spec": spec})

    def _store(self, plural: str, namespace: str, obj: JSON) -> None:
        self.world.server.objects.create(self.world.kind(plural), namespace, obj)

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name, change = rng.choice(list(_POLICIES)), rng.choice(_CHANGES)
            await self._act(name, change, random.Random(rng.random()))

    async def _act(self, name: str, change: str, rng: random.Random) -> None:
        cron_job = self.world.find("cronjobs", NAMESPACE, name)
        assert cron_job is not None
        if change in _EDITS:
            edit = _EDITS[change]
            self.world.change("cronjobs", cron_job, lambda obj: edit(obj["spec"], rng))
        elif change == "end":
            self._end_some(rng)
        elif change == "delete a job":
            self._delete_one(rng)
        elif change == "by hand":
            self._create_by_hand(cron_job)
        else:
            await self._replace(cron_job)

    def _end_some(self, rng: random.Random) -> None:
        for job in self._running():
            if rng.random() < 0.7:
                self._end(job, _SUCCESS if rng.random() < 0.7 else _FAILURE)

    def _running(self) -> list[JSON]:
        return [
            each
            for each in self.world.stored("jobs")
            if each["spec"].get("managedBy") == MANAGED_BY
            and "deletionTimestamp" not in each["metadata"]
            and not each.get("status", {}).get("conditions")
        ]

    def _end(self, job: JSON, conditions: tuple[str, ...]) -> None:
        now = format_time(self.world.clock.now())
        status: JSON = {
            "startTime": job["metadata"]["creationTimestamp"],
            "conditions": [
                {"type": each, "status": "True", "lastTransitionTime": now}
                for each in conditions
            ],
        }
        if conditions == _SUCCESS:
            status["completionTime"] = now
        self.world.change("jobs", job, lambda obj: obj.update(status=status), "status")

    def _delete_one(self, rng: random.Random) -> None:
        jobs = [
            each
            for each in self.world.stored("jobs", NAMESPACE)
            if each["spec"].get("managedBy") == MANAGED_BY
        ]
        if jobs:
            self.world.delete("jobs", rng.choice(jobs), policy="Background")

    def _create_by_hand(self, cron_job: JSON) -> None:
        """Create a job as ``kubectl create job --from`` does."""
        self._by_hand += 1
        metadata = cron_job["metadata"]
        owner = {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        job = {
            "metadata": {
                "name": f"by-hand-{self._by_hand}",
                "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
                "ownerReferences": [owner],
            },
            "spec": job_spec(metadata["name"]),
        }
        self._store("jobs", NAMESPACE, job)

    async def _replace(self, cron_job: JSON) -> None:
        metadata = cron_job["metadata"]
        self.world.delete("cronjobs", cron_job, policy="Background")
        await self.world.until_gone("cronjobs", NAMESPACE, metadata["name"])
        again = {"metadata": {"name": metadata["name"]}, "spec": cron_job["spec"]}
        self._store("cronjobs", NAMESPACE, again)

    async def clean_up(self) -> None:
        """Suspend every cron job and end every job, so that no run starts any more."""
        for cron_job in self.world.stored("cronjobs"):
            self.world.change(
                "cronjobs", cron_job, lambda obj: obj["spec"].update(suspend=True)
            )
        await asyncio.sleep(120)
        for job in self._running():
            self._end(job, _SUCCESS)


def job_spec(name: str) -> JSON:
    """Return the spec of a job that no job controller runs."""
    container = {"name": "c", "image": "app:v1"}
    return {
        "managedBy": MANAGED_BY,
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [container], "restartPolicy": "Never"},
        },
    }


def _suspend(spec: JSON, _: random.Random) -> None:
    spec["suspend"] = not spec.get("suspend", False)


def _schedule(spec: JSON, rng: random.Random) -> None:
    spec["schedule"] = rng.choice(_SCHEDULES)


def _limits(spec: JSON, rng: random.Random) -> None:
    spec["successfulJobsHistoryLimit"] = rng.randrange(4)
    spec["failedJobsHistoryLimit"] = rng.randrange(2)


def _deadline(spec: JSON, rng: random.Random) -> None:
    spec["startingDeadlineSeconds"] = rng.choice([30, 90, 600])


def _zone(spec: JSON, rng: random.Random) -> None:
    spec["timeZone"] = rng.choice(["Etc/UTC", "Asia/Tokyo", "America/St_Johns"])


_EDITS: Final[dict[str, Callable[[JSON, random.Random], None]]] = {
    "suspend": _suspend,
    "schedule": _schedule,
    "limits": _limits,
    "deadline": _deadline,
    "zone": _zone,
}
_CHANGES: Final = (*_EDITS, "end", "end", "end", "delete a job", "by hand", "replace")
