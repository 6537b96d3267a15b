"""Upstream's known faults with stateful sets, each caused on purpose."""

import asyncio
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    rolling,
    stateful_set_json,
)
from tests.simulation.environment import Environment, Scenario
from tests.simulation.objects import controller_of
from tests.simulation.world import NAMESPACE


def create(environment: Environment, replicas: int, **spec: Any) -> None:
    kind = environment.world.kind("statefulsets")
    obj = stateful_set_json(replicas=replicas, **spec)
    environment.world.server.objects.create(kind, NAMESPACE, obj)


def get(environment: Environment) -> JSON:
    found = environment.world.find("statefulsets", NAMESPACE, "web")
    assert found is not None
    return found


def use(environment: Environment, image: str) -> None:
    def edit(obj: JSON) -> None:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = image

    environment.world.change("statefulsets", get(environment), edit)


def images(environment: Environment) -> list[str]:
    """Return the images of all pods, by the names of the pods."""
    return [
        pod["spec"]["containers"][0]["image"]
        for pod in environment.world.stored("pods", NAMESPACE)
    ]


def is_complete(environment: Environment) -> bool:
    obj = get(environment)
    status, wanted = obj.get("status", {}), obj["spec"]["replicas"]
    sizes = ("replicas", "availableReplicas", "updatedReplicas")
    return status.get("observedGeneration") == obj["metadata"]["generation"] and all(
        status.get(each, 0) == wanted for each in sizes
    )


async def repaired_template(environment: Environment) -> None:
    """kubernetes#67250: an update to a template that does not work is undone.

    Upstream waits for the broken pod for ever. Here it is replaced once its image could
    not be pulled for ten minutes, and then the rest.
    """
    create(environment, 3)
    await environment.until(lambda: is_complete(environment), within=60)
    use(environment, "broken:v1")
    await asyncio.sleep(60)
    assert images(environment) == ["app:v1", "app:v1", "broken:v1"]
    use(environment, "app:v1")
    await environment.until(lambda: is_complete(environment), within=660)
    assert images(environment) == ["app:v1"] * 3


async def template_changes_after_a_power_cut(environment: Environment) -> None:
    """No upstream issue: all pods of a set start, for half an hour, at a new template.

    They replay their logs; to replace one would make it begin again.
    """
    create(environment, 3)
    await environment.until(lambda: is_complete(environment), within=60)
    pods = environment.world.stored("pods", NAMESPACE)

    def cease_to_be_ready(obj: JSON) -> None:
        for each in obj["status"]["conditions"]:
            if each["type"] == "Ready":
                now = format_time(environment.world.clock.now())
                each.update(status="False", lastTransitionTime=now)

    for pod in pods:
        environment.world.change("pods", pod, cease_to_be_ready, "status")
    use(environment, "app:v2")
    await asyncio.sleep(1800)
    left = environment.world.stored("pods", NAMESPACE)
    assert [each["metadata"]["uid"] for each in left] == [
        each["metadata"]["uid"] for each in pods
    ]


async def update_behind_a_lagging_watch(environment: Environment) -> None:
    """No upstream issue: the watch of pods lags for twenty minutes in an update.

    Then the cache shows the deleted pod as ready, and each sync would delete it again.
    The set waits until the cache shows the deletion.
    """
    create(environment, 3, podManagementPolicy="Parallel")
    await environment.until(lambda: is_complete(environment), within=60)
    environment.manager.connection.lagging["pods"] = environment.now + 1200
    for number in range(110):
        use(environment, f"app:v{number + 2}")
        await asyncio.sleep(10)
        deletions = [each for each in environment.checks.trace if " DELETE " in each]
        assert len(deletions) == 1
    await environment.until(lambda: is_complete(environment), within=300)


async def adopted_pods_are_replaced(environment: Environment) -> None:
    """No upstream issue: pods without a revision are adopted, then replaced.

    Upstream subtracts them from the current pods, sends -1, and fails the sync. The
    properties look at each status that is sent.
    """
    pods = environment.world.kind("pods")
    for number in range(2):
        body = stateful_set_json()["spec"]["template"]
        metadata = {**body["metadata"], "name": f"web-{number}"}
        pod = {"metadata": metadata, "spec": body["spec"]}
        environment.world.server.objects.create(pods, NAMESPACE, pod)
    create(environment, 2)
    await environment.until(lambda: is_complete(environment), within=120)


async def claims_of_a_replaced_set(environment: Environment) -> None:
    """No upstream issue: a set is deleted and made again while its claims still exist.

    Upstream's new pods use claims that are about to be deleted with the old set, and
    lose them later. Here they wait for new ones.
    """
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    spec: JSON = {
        "volumeClaimTemplates": [claim_template()],
        "persistentVolumeClaimRetentionPolicy": policy,
    }
    create(environment, 2, **spec)
    await environment.until(lambda: is_complete(environment), within=120)
    claims = "persistentvolumeclaims"
    old = {each["metadata"]["uid"] for each in environment.world.stored(claims)}
    environment.world.change(
        "statefulsets", get(environment), lambda obj: obj["spec"].update(replicas=0)
    )
    await environment.until(lambda: not images(environment), within=60)
    environment.world.delete("statefulsets", get(environment))
    create(environment, 2, **spec)
    await environment.until(lambda: is_complete(environment), within=300)
    now = environment.world.stored(claims)
    assert len(now) == 2
    assert not old & {each["metadata"]["uid"] for each in now}
    assert not any("deletionTimestamp" in each["metadata"] for each in now)


async def claim_template_that_is_added(environment: Environment) -> None:
    """No upstream issue: a set is made again over its pods, with one claim more.

    Upstream tries to change the volumes of the pods for ever. Here they are pods of an
    old revision, also for a manager that starts later.
    """
    create(environment, 3, volumeClaimTemplates=[claim_template()])
    await environment.until(lambda: is_complete(environment), within=120)
    environment.world.delete("statefulsets", get(environment), policy="Orphan")

    def is_gone() -> bool:
        return environment.world.find("statefulsets", NAMESPACE, "web") is None

    await environment.until(is_gone, within=60)
    both = [claim_template(), claim_template("wal")]
    create(environment, 3, volumeClaimTemplates=both)
    await asyncio.sleep(20)
    environment.manager.crash()
    await environment.until(lambda: is_complete(environment), within=300)
    pods = environment.world.stored("pods", NAMESPACE)
    assert [len(each["spec"]["volumes"]) for each in pods] == [2, 2, 2]


async def claim_of_a_pod_that_was_scaled_away(environment: Environment) -> None:
    """No upstream issue: a set shrinks and grows again while no manager runs.

    The claim of the former pod is about to be deleted: the new pod waits for another.
    """
    policy = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    create(
        environment,
        2,
        volumeClaimTemplates=[claim_template()],
        persistentVolumeClaimRetentionPolicy=policy,
    )
    await environment.until(lambda: is_complete(environment), within=120)
    world, claims = environment.world, "persistentvolumeclaims"

    def scale(replicas: int) -> None:
        world.change(
            "statefulsets",
            get(environment),
            lambda obj: obj["spec"].update(replicas=replicas),
        )

    def is_leaving() -> bool:
        pods = world.stored("pods", NAMESPACE)
        return any("deletionTimestamp" in each["metadata"] for each in pods)

    scale(1)
    await environment.until(is_leaving, within=60)
    environment.manager.connection.down_until = environment.now + 100
    environment.manager.crash()
    await environment.until(lambda: len(images(environment)) == 1, within=60)
    scale(2)
    await environment.until(lambda: is_complete(environment), within=300)
    await asyncio.sleep(60)
    assert not any(
        "deletionTimestamp" in each["metadata"] for each in world.stored(claims)
    )


async def canary_stays_alone(environment: Environment) -> None:
    """No upstream issue: only pods from the partition on are updated.

    A pod below the partition that is lost comes back at the current revision.
    """
    create(environment, 3, updateStrategy=rolling(2))
    await environment.until(lambda: is_complete(environment), within=60)
    use(environment, "app:v2")
    await asyncio.sleep(60)
    assert images(environment) == ["app:v1", "app:v1", "app:v2"]
    first, *_ = environment.world.stored("pods", NAMESPACE)
    environment.world.delete("pods", first)
    await asyncio.sleep(60)
    assert images(environment) == ["app:v1", "app:v1", "app:v2"]


async def claims_follow_their_policy(environment: Environment) -> None:
    """No upstream issue: the retention policy of claims is changed, then used.

    The set is read again before it becomes the owner of claims, and the claim of a pod
    that is scaled away goes with it.
    """
    create(environment, 2, volumeClaimTemplates=[claim_template()])
    await environment.until(lambda: is_complete(environment), within=120)
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}

    def change(**spec: Any) -> None:
        environment.world.change(
            "statefulsets", get(environment), lambda obj: obj["spec"].update(spec)
        )

    def owned() -> list[bool]:
        claims = environment.world.stored("persistentvolumeclaims", NAMESPACE)
        uid = get(environment)["metadata"]["uid"]
        return [controller_of(each) == uid for each in claims]

    assert owned() == [False, False]
    change(persistentVolumeClaimRetentionPolicy=policy)
    await environment.until(lambda: owned() == [True, True], within=60)
    change(replicas=1)
    await environment.until(lambda: owned() == [True], within=120)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    repaired_template,
    template_changes_after_a_power_cut,
    update_behind_a_lagging_watch,
    adopted_pods_are_replaced,
    claims_of_a_replaced_set,
    claim_template_that_is_added,
    claim_of_a_pod_that_was_scaled_away,
    canary_stays_alone,
    claims_follow_their_policy,
)
