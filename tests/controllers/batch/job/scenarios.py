"""Upstream's known faults with jobs, each played on purpose."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.batch.job.stored import ENDS, has, is_tracked, phase_of
from tests.controllers.batch.job.workload import job_json
from tests.simulation.environment import Environment, Scenario
from tests.simulation.objects import controller_of
from tests.simulation.world import NAMESPACE

_INDEXED: Final[JSON] = {"completionMode": "Indexed"}


class _Jobs:
    """Short ways to read and change the only job of a scenario, and its pods."""

    def __init__(self, environment: Environment, job: JSON) -> None:
        self._world = environment.world
        self._until = environment.until
        self._name = job["metadata"]["name"]
        self._world.server.objects.create(self._world.kind("jobs"), NAMESPACE, job)

    def get(self) -> JSON:
        job = self._world.find("jobs", NAMESPACE, self._name)
        assert job is not None
        return job

    def numbers(self, *fields: str) -> tuple[int, ...]:
        return tuple(self.get().get("status", {}).get(field, 0) for field in fields)

    def pods(self, phase: str = "") -> list[JSON]:
        uid = self.get()["metadata"]["uid"]
        return [
            pod
            for pod in self._world.stored("pods", NAMESPACE)
            if controller_of(pod) == uid and phase in ("", phase_of(pod))
        ]

    async def until(self, is_so: Callable[[], bool], within: float) -> None:
        await self._until(is_so, within)

    async def until_running(self, count: int) -> None:
        await self.until(lambda: self.numbers("active", "ready") == (count,) * 2, 30)

    def has_ended(self) -> bool:
        return has(self.get(), *ENDS)

    def edit(self, **spec: Any) -> None:
        self._world.change("jobs", self.get(), lambda obj: obj["spec"].update(spec))

    def end(self, pod: JSON, phase: str) -> None:
        self._world.change(
            "pods", pod, lambda obj: obj["status"].update(phase=phase), "status"
        )


async def failure_during_a_backoff(environment: Environment) -> None:
    """kubernetes#139428: one of several pods fails, and the others run on.

    Upstream reports no active pods during the backoff. The API server refuses such a
    status if other pods are ready, and the failure stays uncounted. Here it is
    counted at once.
    """
    jobs = _Jobs(environment, job_json("web", "forever", parallelism=3))
    await jobs.until_running(3)
    jobs.end(jobs.pods()[0], "Failed")
    await asyncio.sleep(4)
    assert jobs.numbers("active", "ready", "failed") == (2, 2, 1)
    await jobs.until_running(3)


async def success_is_not_seen(environment: Environment) -> None:
    """kubernetes#105200: the watch of pods lags behind that of jobs.

    The first version of upstream's tracking counted a pod again whose finalizer its
    cache still showed. Here the sync waits for the cache.
    """
    jobs = _Jobs(environment, job_json("web", 5, completions=6, parallelism=2))
    connection = environment.manager.connection
    for _ in range(6):
        await asyncio.sleep(4)
        connection.lagging["pods"] = environment.now + 15
        await asyncio.sleep(20)
    await jobs.until(jobs.has_ended, within=120)
    assert jobs.numbers("succeeded", "failed") == (6, 0)


async def end_of_a_job_is_not_seen(environment: Environment) -> None:
    """kubernetes#130103 and #130683: the watch of jobs lags behind that of pods.

    Upstream saw neither the success in the status nor that of the pod, which had lost
    its finalizer, and created a second pod. Here the sync waits for the cache.
    """
    jobs = _Jobs(environment, job_json("web", 5))
    await jobs.until_running(1)
    environment.manager.connection.lagging["jobs"] = environment.now + 120
    await jobs.until(jobs.has_ended, within=60)
    await asyncio.sleep(180)
    assert len(jobs.pods()) == 1


async def failure_before_all_pods_are_seen(environment: Environment) -> None:
    """kubernetes#109485: a job fails while its last pods are not cached yet.

    Upstream declared the job failed, and the pods that it had not seen kept their
    finalizers for ever. Here, as upstream since then, the end waits for the cache.
    """
    job = job_json(
        "web", 20, completions=20, parallelism=20, backoffLimit=0, **_INDEXED
    )
    await asyncio.sleep(10)
    environment.manager.connection.lagging["pods"] = environment.now + 60
    jobs = _Jobs(environment, job)
    await jobs.until(lambda: len(jobs.pods("Running")) == 20, within=20)
    jobs.end(jobs.pods()[7], "Failed")
    await jobs.until(jobs.has_ended, within=180)
    assert has(jobs.get(), "Failed")
    assert [pod for pod in jobs.pods() if is_tracked(pod)] == []


async def job_is_deleted_while_a_pod_ends(environment: Environment) -> None:
    """kubernetes#108645: a pod that is being deleted when its job is.

    Upstream left the finalizer on it, and the namespace could not be deleted. Here, as
    upstream since then, a pod whose job is gone loses it.
    """
    world = environment.world
    for policy in ("Background", "Orphan", "Foreground"):
        jobs = _Jobs(environment, job_json("web", "forever", parallelism=3))
        await jobs.until_running(3)
        environment.manager.connection.lagging["pods"] = environment.now + 20
        world.delete("pods", jobs.pods()[0])
        world.delete("jobs", jobs.get(), policy=policy)
        await world.until_gone("jobs", NAMESPACE, "web")
        await asyncio.sleep(60)
        assert [pod for pod in world.stored("pods") if is_tracked(pod)] == []


async def surplus_pod_succeeds(environment: Environment) -> None:
    """No issue: a job is suspended in the moment in which its pods succeed.

    Upstream removes their finalizers as those of surplus pods, without a look at
    them, and does their work again. Here they are counted.
    """
    job = job_json("web", 10, completions=2, parallelism=2)
    jobs = _Jobs(environment, job)
    await jobs.until_running(2)
    environment.manager.connection.lagging["pods"] = environment.now + 30
    await jobs.until(lambda: len(jobs.pods("Succeeded")) == 2, within=30)
    jobs.edit(suspend=True)
    await jobs.until(lambda: jobs.numbers("succeeded") == (2,), within=120)
    assert len(jobs.pods()) == 2


async def owner_is_removed(environment: Environment) -> None:
    """No issue: users remove the owner references of pods that have succeeded.

    Upstream removes the finalizer from such a pod, and gives it back when the job
    adopts the pod: it is counted again, or never. Here each is counted once, whether
    that happened before or after the references were removed.
    """
    jobs = _Jobs(environment, job_json("web", 10, completions=6, parallelism=2))
    await jobs.until(lambda: jobs.numbers("succeeded") == (2,), within=30)
    for pod in jobs.pods("Succeeded"):
        _remove_owner(environment, pod)
    await jobs.until(lambda: len(jobs.pods("Running")) == 2, within=30)
    environment.manager.connection.lagging["pods"] = environment.now + 30
    await jobs.until(lambda: len(jobs.pods("Succeeded")) == 4, within=30)
    for pod in jobs.pods("Succeeded"):
        _remove_owner(environment, pod)
    await jobs.until(jobs.has_ended, within=120)
    assert jobs.numbers("succeeded", "failed") == (6, 0)
    assert len(jobs.pods()) == 6


def _remove_owner(environment: Environment, pod: JSON) -> None:
    def edit(obj: JSON) -> None:
        del obj["metadata"]["ownerReferences"]

    environment.world.change("pods", pod, edit)


async def counted_pod_is_gone(environment: Environment) -> None:
    """No issue: a standby takes over whose cache has a pod that is counted and gone.

    Upstream counts it again. Here the API server is asked which pods there are.
    """
    await asyncio.sleep(10)
    leader, standby = sorted(
        environment.world.managers, key=lambda each: not each.leads
    )
    assert leader.leads
    jobs = _Jobs(environment, job_json("web", 10, completions=3, parallelism=1))
    await jobs.until(lambda: len(jobs.pods("Succeeded")) == 1, within=30)
    standby.connection.lagging["pods"] = environment.now + 300
    jobs.edit(suspend=True)  # otherwise the next pod shows how old the cache is
    await jobs.until(lambda: jobs.numbers("succeeded") == (1,), within=30)
    environment.world.delete("pods", jobs.pods("Succeeded")[0])
    leader.connection.down_until = environment.now + 900
    leader.crash()
    await asyncio.sleep(400)
    assert standby.leads
    jobs.edit(suspend=False)
    await jobs.until(jobs.has_ended, within=300)
    assert jobs.numbers("succeeded", "failed") == (3, 0)


async def job_is_not_seen_yet(environment: Environment) -> None:
    """No issue: a standby takes over that has not seen the job, but its pods.

    One of them has succeeded and is being deleted. Upstream takes it for the pod of a
    job that is gone, and its work is done again. Here the API server is asked.
    """
    await asyncio.sleep(10)
    leader, standby = sorted(
        environment.world.managers, key=lambda each: not each.leads
    )
    assert leader.leads
    standby.connection.lagging["jobs"] = environment.now + 300
    jobs = _Jobs(environment, job_json("web", 30, completions=2, parallelism=2))
    await jobs.until(lambda: len(jobs.pods("Running")) == 2, within=20)
    leader.connection.down_until = environment.now + 900
    leader.crash()
    await jobs.until(lambda: len(jobs.pods("Succeeded")) == 2, within=60)
    environment.world.delete("pods", jobs.pods("Succeeded")[0])
    await jobs.until(jobs.has_ended, within=600)
    assert standby.leads
    assert jobs.numbers("succeeded", "failed") == (2, 0)


async def last_pod_is_not_seen_yet(environment: Environment) -> None:
    """No issue: a standby takes over that has seen a success, but no pod.

    A work queue with a success is complete when no pod runs any more. Here the API
    server is asked whether one does.
    """
    await asyncio.sleep(10)
    leader, standby = sorted(
        environment.world.managers, key=lambda each: not each.leads
    )
    assert leader.leads
    standby.connection.lagging["pods"] = environment.now + 300
    jobs = _Jobs(environment, job_json("web", "forever", parallelism=2))
    await jobs.until_running(2)
    first, last = jobs.pods()
    jobs.end(first, "Succeeded")
    await jobs.until(lambda: jobs.numbers("succeeded") == (1,), within=30)
    leader.connection.down_until = environment.now + 900
    leader.crash()
    await asyncio.sleep(400)
    assert standby.leads
    assert not jobs.has_ended()
    jobs.end(last, "Failed")
    await jobs.until(jobs.has_ended, within=60)
    assert jobs.numbers("succeeded", "failed") == (1, 1)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    failure_during_a_backoff,
    success_is_not_seen,
    end_of_a_job_is_not_seen,
    failure_before_all_pods_are_seen,
    job_is_deleted_while_a_pod_ends,
    surplus_pod_succeeds,
    owner_is_removed,
    counted_pod_is_gone,
    job_is_not_seen_yet,
    last_pod_is_not_seen_yet,
)
PAIRS: Final[tuple[Scenario, ...]] = (
    counted_pod_is_gone,
    job_is_not_seen_yet,
    last_pod_is_not_seen_yet,
)
"""Scenarios that need a leader and a standby."""
