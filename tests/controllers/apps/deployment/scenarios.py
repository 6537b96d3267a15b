"""Upstream's known faults with deployments, each caused on purpose."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

from controller_manager.api.json_objects import JSON
from controller_manager.informers.store import Store
from tests.controllers.builders import deployment_json
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE


async def success_of_nothing(environment: Environment) -> None:
    """kubernetes#106697: scaled from nothing to pods that cannot start.

    Upstream goes on to report NewReplicaSetAvailable, the success of having
    rolled out no pods at all. Here the first pods have a deadline as those of
    any rollout.
    """
    environment.create(replicas=0, progressDeadlineSeconds=60)
    environment.set_image("broken:v1")
    await asyncio.sleep(30)
    assert environment.condition("Progressing") == ("True", "NewReplicaSetAvailable")
    environment.edit(replicas=1)
    await asyncio.sleep(30)
    assert environment.condition("Progressing") == ("True", "ReplicaSetUpdated")
    assert environment.condition("Available") == ("False", "MinimumReplicasUnavailable")
    await asyncio.sleep(60)
    assert environment.condition("Progressing") == ("False", "ProgressDeadlineExceeded")
    environment.set_image("app:v2")
    await asyncio.sleep(30)
    assert environment.condition("Progressing") == ("True", "NewReplicaSetAvailable")


async def success_of_an_earlier_rollout(environment: Environment) -> None:
    """kubernetes#106697: back to a template that does not start any more.

    Going back uses a replica set again, so nothing says that a rollout begins.
    Upstream goes on to report the success of the one before. Here the condition
    is known to be about another replica set, and the deadline holds.
    """
    environment.create(
        replicas=2, progressDeadlineSeconds=60, strategy={"type": "Recreate"}
    )
    environment.set_image("broken:v1")
    await asyncio.sleep(90)
    assert environment.condition("Progressing") == ("False", "ProgressDeadlineExceeded")
    environment.set_image("app:v2")
    await asyncio.sleep(60)
    assert environment.condition("Progressing") == ("True", "NewReplicaSetAvailable")
    environment.set_image("broken:v1")
    await asyncio.sleep(90)
    assert environment.condition("Progressing") == ("False", "ProgressDeadlineExceeded")


async def pods_fail_after_a_rollout(environment: Environment) -> None:
    """kubernetes#106054: pods that were fine, and cannot be replaced.

    As upstream, and as documented: Progressing is about rollouts and stays as it was,
    and Available turns False. From the first refusal on, ReplicaFailure has the number
    of missing pods and the reason, which upstream omits.
    """
    environment.create(replicas=4, progressDeadlineSeconds=60)
    await environment.until(environment.is_complete, within=60)
    kind = environment.world.kind("resourcequotas")
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    environment.world.server.objects.create(kind, NAMESPACE, quota)
    await asyncio.sleep(5)  # a quota holds once its controller has counted
    for pod in environment.world.stored("pods", NAMESPACE)[:3]:
        environment.world.delete("pods", pod, grace=0)
    await asyncio.sleep(300)
    assert environment.condition("Progressing") == ("True", "NewReplicaSetAvailable")
    assert environment.condition("Available") == ("False", "MinimumReplicasUnavailable")
    assert environment.condition("ReplicaFailure") == ("True", "FailedCreate")


async def pods_restart_before_they_count(environment: Environment) -> None:
    """kubernetes#108266: a new pod restarts before minReadySeconds are over.

    Upstream may sleep through the moment at which the restarted pod counts, and
    reports a missed deadline. Here the next moment at which any pod will count
    is always waited for.
    """
    environment.create(
        replicas=3,
        minReadySeconds=30,
        progressDeadlineSeconds=120,
        strategy={
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 1},
        },
    )
    await environment.until(environment.is_complete, within=60)
    environment.set_image("app:v2")
    started = environment.now
    for number in range(3):
        await asyncio.sleep(20)
        new = [
            pod
            for pod in environment.world.stored("pods", NAMESPACE)
            if pod["spec"]["containers"][0]["image"] == "app:v2"
        ]
        environment.world.restart_pod(new[number])
    await environment.until(environment.is_complete, within=110)
    # The last one was ready again after 64 seconds, and then 30 more.
    passed = environment.now - started
    assert 93.5 <= passed <= 98, passed
    assert environment.condition("Progressing") == ("True", "NewReplicaSetAvailable")


async def bounds_of_a_rolling_update(environment: Environment) -> None:
    """kubernetes#22719 and #21810: surge and availability, at every moment.

    Upstream counts on available pods that are about to go, once a replica set
    was shrunk, and takes more than it may. Here ten replicas are rolled over and
    over, before they have come to rest, and looked at five times a second.
    """
    environment.create(replicas=10)
    await environment.until(environment.is_complete, within=60)
    for number in range(2, 9):
        environment.set_image(f"app:v{number}")
        for _ in range(13 * number):
            await asyncio.sleep(0.2)
            assert len(environment.live_pods()) <= 13
            ready = [
                pod
                for pod in environment.world.stored("pods", NAMESPACE)
                if _is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
            ]
            assert len(ready) >= 8
    await environment.until(environment.is_complete, within=120)


async def hash_collision(environment: Environment) -> None:
    """kubernetes#29735: the name of the new replica set is taken.

    Upstream, before it counted collisions, tried the same name for ever. Here
    as there it is counted once, and the next name is free.
    """
    environment.create(replicas=2)
    await environment.until(environment.is_complete, within=60)
    (taken,) = environment.world.stored("replicasets", NAMESPACE)
    environment.world.delete("deployments", environment.get())
    await asyncio.sleep(30)
    other: JSON = deployment_json("other", 0)
    del other["spec"]["template"]["metadata"]["labels"]
    other["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    foreign = {
        "metadata": {"name": taken["metadata"]["name"]},
        "spec": {
            key: other["spec"][key] for key in ("replicas", "selector", "template")
        },
    }
    kind = environment.world.kind("replicasets")
    environment.world.server.objects.create(kind, NAMESPACE, foreign)
    environment.create(replicas=2)
    await environment.until(environment.is_complete, within=60)
    assert environment.status("collisionCount") == 1
    assert len(environment.world.stored("replicasets", NAMESPACE)) == 2


async def thousands_in_one_namespace(environment: Environment) -> None:
    """kubernetes#117123: hundreds of deployments in one namespace.

    Upstream lists all replica sets of the namespace in each sync of each
    deployment, so that time and memory grow with the square of their number.
    Here a rollout among hundreds of others goes through no cache as a whole.
    """
    for number in range(300):
        environment.create(f"other-{number}", replicas=0)
    environment.create(replicas=5)
    await environment.until(environment.is_complete, within=120)
    await asyncio.sleep(60)
    with _counting_scans() as scans:
        environment.set_image("app:v2")
        await environment.until(environment.is_complete, within=60)
        environment.edit(replicas=8)
        await environment.until(environment.is_complete, within=60)
    assert scans == []


def _is_ready(pod: JSON) -> bool:
    return any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in pod.get("status", {}).get("conditions", [])
    )


@contextmanager
def _counting_scans() -> Iterator[list[Store[Any]]]:
    """Record the stores that are listed as a whole."""
    scans: list[Store[Any]] = []
    original = Store.__iter__

    def counted(self: Store[Any]) -> Iterator[Any]:
        scans.append(self)
        return original(self)

    with mock.patch.object(Store, "__iter__", counted):
        yield scans


SCENARIOS: Final[tuple[Scenario, ...]] = (
    success_of_nothing,
    success_of_an_earlier_rollout,
    pods_fail_after_a_rollout,
    pods_restart_before_they_count,
    bounds_of_a_rolling_update,
    hash_collision,
    thousands_in_one_namespace,
)
