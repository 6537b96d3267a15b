"""Stateful sets on a cluster in memory, beyond the recorded scenarios."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.apps.v1 import STATEFUL_SETS, StatefulSet
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import is_deleting
from controller_manager.cli.flags import make_config as config_from_flags
from controller_manager.controllers.apps.statefulset.controller import (
    StatefulSetMetrics,
)
from controller_manager.controllers.apps.statefulset.replicas import FoundPods
from controller_manager.options.config import Config
from tests.clusters import Cluster, RecordingTransport, make_config
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.builders import template
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


def config(**flags: str) -> Config:
    """Return a config of the stateful set controller and the garbage collector."""
    names = ("statefulset-controller", "garbage-collector-controller")
    ours = make_config(controllers=names)
    given = {name.replace("_", "-"): [value] for name, value in flags.items()}
    made = config_from_flags(given, [])
    return replace(made, client=ours.client, generic=ours.generic, serving=ours.serving)


@asynccontextmanager
async def manager(
    cluster: Cluster, **flags: str
) -> AsyncGenerator[RecordingTransport, None]:
    async with cluster.manager(config(**flags)) as recording:
        yield recording


class Sets(User):
    """A user of stateful sets, who plays the kubelet, too."""

    async def make(self, replicas: int = 3, image: str = "app:v1", **spec: Any) -> None:
        spec["template"] = template(image)
        await self.create(STATEFUL_SETS, stateful_set_json(replicas=replicas, **spec))

    async def stateful_set(self) -> StatefulSet:
        return await self.client.get(STATEFUL_SETS, "default", "web")

    async def edit(self, **spec: Any) -> None:
        await self.patch(STATEFUL_SETS, "web", {"spec": spec})

    async def use(self, image: str) -> None:
        containers = [{"name": "c", "image": image}]
        await self.edit(template={"spec": {"containers": containers}})

    async def images(self) -> dict[str, str]:
        """Return the image of each pod, with a ``*`` if the pod is ready."""
        stored = [each.obj for each in self.cluster.server.storage.collection("pods")]
        by_name = {each["metadata"]["name"]: _image(each) for each in stored}
        return dict(sorted(by_name.items()))

    async def uids(self) -> dict[str, str]:
        pods = await self.pods()
        return dict(sorted((each.metadata.name, each.metadata.uid) for each in pods))

    async def messages(self, reason: str) -> list[str]:
        return sorted({each.message for each in await self.events(reason)})

    async def edit_set(self, **spec: Any) -> None:
        await self.edit(**spec)

    async def owned(self) -> list[str]:
        """Return the names of the pods that have an owner."""
        pods = [each for each in await self.pods() if each.metadata.owner_references]
        return sorted(each.metadata.name for each in pods)

    async def claims(self) -> list[str]:
        """Return the claims that are not being deleted; a finalizer holds the rest."""
        page = await self.client.list_page(CLAIMS)
        names = [each.metadata.name for each in page.items if not is_deleting(each)]
        return sorted(names)

    async def owners_of_claims(self) -> dict[str, list[str]]:
        page = await self.client.list_page(CLAIMS)
        return {
            each.metadata.name: [
                owner.kind for owner in each.metadata.owner_references or ()
            ]
            for each in page.items
        }


def _image(pod: JSON) -> str:
    conditions = pod["status"].get("conditions", [])
    ready = any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)
    return str(pod["spec"]["containers"][0]["image"]) + ("*" if ready else "")


@pytest.fixture
def sets(cluster: Cluster) -> Sets:
    return Sets(cluster)


def pod_json(name: str, app: str = "web") -> JSON:
    metadata = {"name": name, "labels": {"app": app}}
    return {"metadata": metadata, "spec": template()["spec"]}


@scenarios("apps/statefulset")
async def test_sets_on_a_cluster(scenario: Scenario) -> None:
    await scenario.play(Hands, config, Sets)


async def test_the_next_sync_adopts_a_late_pod(cluster: Cluster, sets: Sets) -> None:
    """An event would report a pod of another owner as a name in use."""
    finished = []

    find = FoundPods.among

    def find_later(*arguments: Any) -> FoundPods:
        found = find(*arguments)
        finished.append(len(found.named))
        if len(finished) > 1:
            return found
        return FoundPods(found.stateful_set, found.selector, (), (), frozenset())

    await sets.create(PODS, pod_json("web-0"))
    with mock.patch.object(FoundPods, "among", find_later):
        async with manager(cluster):
            await sets.make(replicas=1)
            await settle(5)
    (pod,) = await sets.pods()
    assert [each.name for each in pod.metadata.owner_references or ()] == ["web"]
    assert finished[:2] == [1, 1]
    assert await sets.messages("FailedCreate") == []


def test_the_metrics_of_a_set_that_is_gone_are_gone() -> None:
    registry = CollectorRegistry()
    metrics = StatefulSetMetrics(registry)
    name = "statefulset_controller_statefulset_max_unavailable"
    labels = {"statefulset_namespace": "default", "statefulset_name": "web"}
    metrics.availability("default", "web", "Parallel", 2, 0)
    metrics.availability("default", "web", "OrderedReady", 1, 0)

    def shown(policy: str) -> float | None:
        given = {**labels, "pod_management_policy": policy}
        return registry.get_sample_value(name, given)

    assert (shown("Parallel"), shown("OrderedReady")) == (None, 1)
    for _ in range(2):
        metrics.forget("default", "web")
    assert shown("OrderedReady") is None
