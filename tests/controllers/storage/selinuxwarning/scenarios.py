"""Pods that share a volume while the controller cannot see all of it."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.storage.selinuxwarning.objects import DRIVER, X, Y, pod_spec
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_MODES: Final = ["ReadWriteMany"]
_SIZE: Final = {"storage": "1Gi"}


async def claim_is_bound_after_its_pods_are_seen(environment: Environment) -> None:
    """No issue: show a claim two minutes after the pods that share it.

    Upstream finds it by trying again and again.
    """
    _create(environment)
    lagging = environment.manager.connection.lagging
    lagging["persistentvolumeclaims"] = environment.now + 120
    _bind(environment)
    await asyncio.sleep(60)
    assert _told(environment) == set()
    await asyncio.sleep(300)
    assert _told(environment) == {"one", "two"}


async def pod_ends_while_no_manager_runs(environment: Environment) -> None:
    """No issue: a pod that has ended does not count, also after a restart."""
    _create(environment)
    environment.manager.pause(60)
    pod = environment.world.find("pods", NAMESPACE, "one")
    assert pod is not None
    environment.world.delete("pods", pod, grace=0)
    _bind(environment)
    await asyncio.sleep(1)
    environment.manager.crash()
    await asyncio.sleep(300)
    assert _told(environment) == set()


def _create(environment: Environment) -> None:
    """Create a driver that mounts labels, and two pods that cannot share a volume."""
    world = environment.world
    objects = world.server.objects
    driver = {"attachRequired": False, "seLinuxMount": True}
    body: JSON = {"metadata": {"name": DRIVER}, "spec": driver}
    objects.create(world.kind("csidrivers"), "", body)
    for name, options in (("one", X), ("two", Y)):
        pod = {"metadata": {"name": name}, "spec": pod_spec(options)}
        objects.create(world.kind("pods"), NAMESPACE, pod)


def _bind(environment: Environment) -> None:
    """Create a volume and a claim that are bound to each other."""
    world = environment.world
    objects = world.server.objects
    spec: JSON = {
        "accessModes": _MODES,
        "resources": {"requests": _SIZE},
        "volumeName": "data",
        "storageClassName": "",
    }
    body: JSON = {"metadata": {"name": "data"}, "spec": spec}
    claim = objects.create(world.kind("persistentvolumeclaims"), NAMESPACE, body).obj
    volume = {
        "accessModes": _MODES,
        "capacity": _SIZE,
        "csi": {"driver": DRIVER, "volumeHandle": "v"},
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "namespace": NAMESPACE,
            "name": "data",
            "uid": claim["metadata"]["uid"],
        },
        "storageClassName": "",
    }
    body = {"metadata": {"name": "data"}, "spec": volume}
    objects.create(world.kind("persistentvolumes"), "", body)


def _told(environment: Environment) -> set[str]:
    """Return the pods that were told of a conflict."""
    return {
        each["involvedObject"]["name"]
        for each in environment.world.stored("events", NAMESPACE)
        if each["reason"] == "SELinuxLabelConflict"
    }


SCENARIOS: Final[tuple[Scenario, ...]] = (
    claim_is_bound_after_its_pods_are_seen,
    pod_ends_while_no_manager_runs,
)
