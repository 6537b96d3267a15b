"""Faults of clusters: slow webhooks, refused lists, proxies, many objects.

They are no faults of upstream's. Each was seen with the daemon as a process
(`tests/robustness`). They take an environment, as those of `scenarios` do.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import force_setattr

from controller_manager.api.core.v1 import PODS, Pod, PodSpec
from controller_manager.api.meta import AnyResource, KubeObject, labels_of
from controller_manager.informers.reads import Reads
from controller_manager.informers.store import BY_CONTROLLER
from controller_manager.informers.transforms import transform_for
from tests.simulation.environment import FAR_AHEAD, Environment, Scenario
from tests.simulation.network import SlowCreates
from tests.simulation.world import DELETABLE_NAMESPACE, NAMESPACE

_LONG: Final = 25.0
"""Seconds of a create: longer than the lease lasts without a renewal."""


async def webhook_outlasts_the_lease(environment: Environment) -> None:
    """No issue: a webhook takes 25 s for each pod, while the lease is renewed.

    A write that gets only the time that the lease had left when the write began is
    never carried out.
    """
    await asyncio.sleep(10)
    for manager in environment.world.managers:
        manager.connection.slow_creates["pods"] = SlowCreates(
            _LONG, environment.now + 3600
        )
    environment.create(replicas=3)
    await environment.until(lambda: len(environment.live_pods()) == 3, within=3 * _LONG)


async def list_is_refused(environment: Environment) -> None:
    """No issue: config maps may not be listed for an hour; one controller needs them.

    The others start, and that one starts when it may list them.
    """
    until = environment.now + 3600
    environment.manager.connection.refused["configmaps"] = until
    environment.manager.crash()
    await asyncio.sleep(30)
    environment.create(replicas=3)
    await environment.until(environment.is_complete, within=30)
    environment.world.create_namespace("late")
    await asyncio.sleep(until - environment.now - 1)
    assert environment.world.find("configmaps", "late", "kube-root-ca.crt") is None
    await asyncio.sleep(70)
    assert environment.world.find("configmaps", "late", "kube-root-ca.crt") is not None


async def hundreds_are_settled_at_the_start(environment: Environment) -> None:
    """No issue: a manager starts where hundreds of deployments need nothing.

    No sync awaits anything; the workers must yield to others between syncs.
    """
    for number in range(300):
        environment.create(f"web-{number}", replicas=0)
    await asyncio.sleep(60)
    environment.manager.crash()
    await asyncio.sleep(60)


async def slow_creates_of_one_controller(environment: Environment) -> None:
    """No issue: creates of pods take ten seconds each, and forty are under way.

    A write of another controller must wait for none of them.
    """
    await asyncio.sleep(10)
    environment.manager.connection.slow_creates["pods"] = SlowCreates(
        10.0, environment.now + 600
    )
    for number in range(5):
        environment.create(f"slow-{number}", replicas=30)
    await asyncio.sleep(45)  # by now batches of sixteen are under way for each
    for number in range(5):
        environment.create(f"other-{number}", replicas=0)
        created = partial(_has_replica_set, environment, f"other-{number}")
        await environment.until(created, within=1)
        await asyncio.sleep(2)


def _has_replica_set(environment: Environment, deployment: str) -> bool:
    return any(
        each["metadata"]["name"].startswith(f"{deployment}-")
        for each in environment.world.stored("replicasets", NAMESPACE)
    )


async def proxy_cuts_idle_streams(environment: Environment) -> None:
    """No issue: for an hour, a proxy closes streams that are idle for twelve seconds.

    The controllers still act on changes at once, whenever they come.
    """
    environment.manager.connection.cuts_idle_until = environment.now + 3600
    environment.manager.connection.cut()
    await asyncio.sleep(30)
    for number in range(60):
        await asyncio.sleep(20 + 0.7 * number)
        name = f"web-{number}"
        environment.create(name, replicas=0)
        await environment.until(lambda: _has_replica_set(environment, name), within=0.6)  # noqa: B023


async def watches_stay_half_open(environment: Environment) -> None:
    """No issue: the peer of all watches is gone without closing them.

    After 75 seconds without a bookmark they are opened anew.
    """
    await asyncio.sleep(10)
    environment.manager.connection.fall_silent()
    environment.create(replicas=3)
    await environment.until(environment.is_complete, within=100)


async def each_resource_in_an_etcd_of_its_own(environment: Environment) -> None:
    """No issue: ``--etcd-servers-overrides`` for every resource.

    Versions say nothing about those of other resources. All controllers work on, and a
    namespace with everything in it goes.
    """
    world = environment.world
    kinds = [each for each in world.server.catalogue.all() if each.is_stored]
    for number, plural in enumerate(sorted({each.plural for each in kinds})):
        world.separate(plural, (number * 7919 % 101 + 1) * FAR_AHEAD)
    environment.create(replicas=3)
    world.create_shop()
    await environment.until(environment.is_complete, within=60)
    environment.set_image("app:v2")
    await environment.until(environment.is_complete, within=60)
    environment.manager.crash()
    environment.edit(replicas=5)
    await environment.until(environment.is_complete, within=60)
    await asyncio.sleep(60)
    for plural, namespace, name in (
        ("deployments", NAMESPACE, "web"),
        ("namespaces", "", DELETABLE_NAMESPACE),
    ):
        found = world.find(plural, namespace, name)
        assert found is not None
        world.delete(plural, found)
    await environment.until(lambda: not world.stored("replicasets"), within=120)
    await environment.until(
        lambda: world.find("namespaces", "", DELETABLE_NAMESPACE) is None, within=300
    )
    assert world.stored("pods") == []


async def objects_break_a_transform(environment: Environment) -> None:
    """No issue: the caches can neither make pods smaller nor find their owners.

    The transform fails for each pod with the label odd, and the index of owners for
    each pod that is not bound yet. Leader and standby meet the same pods. No process
    ends, no pod is created twice, and the rollouts go on.
    """
    await asyncio.sleep(10)
    with patch(_TRANSFORM_FOR, _transform_for), _index_breaks_for_unbound_pods():
        for manager in environment.world.managers:
            manager.crash()
        await asyncio.sleep(30)
        starts = [each.starts for each in environment.world.managers]
        environment.create(replicas=3)
        for labels in ({"odd": "1"}, {}, {"odd": "2"}):
            await environment.until(environment.is_complete, within=120)
            template = environment.get()["spec"]["template"]
            metadata = {"labels": {"app": "web", **labels}}
            environment.edit(template={**template, "metadata": metadata})
        await environment.until(environment.is_complete, within=120)
        assert len(environment.live_pods()) == 3
        assert [each.starts for each in environment.world.managers] == starts


_TRANSFORM_FOR: Final = "controller_manager.informers.factory.transform_for"


def _transform_for(resource: AnyResource, declared: Iterable[Reads]) -> Any:
    """Return the transform of a resource; that of pods fails for some of them."""
    transform = transform_for(resource, declared)
    if resource != PODS:
        return transform

    def transform_most(pod: Pod) -> None:
        if "odd" in labels_of(pod):
            raise LookupError(pod.metadata.name)
        if transform is not None:
            transform(pod)

    return transform_most


def _is_unbound(pod: Pod) -> bool:
    """Tell whether a pod has no node; of pods whose node is not declared, it is False.

    In the strict mode, controllers that do not declare the field get pods without it.
    """
    try:
        spec = vars(Pod)["spec"].__get__(pod)
        return not vars(PodSpec)["node_name"].__get__(spec)
    except AttributeError:
        return False


@contextmanager
def _index_breaks_for_unbound_pods() -> Iterator[None]:
    function = BY_CONTROLLER.function

    def values(obj: KubeObject) -> Iterable[str]:
        yield from function(obj)
        if isinstance(obj, Pod) and _is_unbound(obj):
            raise LookupError(obj.metadata.name)

    force_setattr(BY_CONTROLLER, "function", values)
    try:
        yield
    finally:
        force_setattr(BY_CONTROLLER, "function", function)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    each_resource_in_an_etcd_of_its_own,
    webhook_outlasts_the_lease,
    list_is_refused,
    hundreds_are_settled_at_the_start,
    slow_creates_of_one_controller,
    proxy_cuts_idle_streams,
    watches_stay_half_open,
    objects_break_a_transform,
)
PAIRS: Final[tuple[Scenario, ...]] = (
    webhook_outlasts_the_lease,
    objects_break_a_transform,
)
"""Scenarios that need leader election."""
