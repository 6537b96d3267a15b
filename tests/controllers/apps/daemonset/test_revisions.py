"""Controller revisions of daemon sets on a cluster in memory."""

from typing import Any

import pytest
from msgspec import Raw

from controller_manager.api.apps.v1 import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    ControllerRevision,
)
from controller_manager.api.core.v1 import PODS
from controller_manager.api.meta import ObjectMeta, OwnerReference, controller_reference
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.control.controller_history import data_hash, template_data
from controller_manager.controllers.apps.daemonset.nodes import target_of
from tests.clusters import Cluster
from tests.controllers.apps.daemonset.builders import Operator, config, running
from tests.controllers.builders import daemon_set_json
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

HASH = "controller-revision-hash"
ON_DELETE: dict[str, Any] = {"updateStrategy": {"type": "OnDelete"}}


@pytest.fixture
def operator(cluster: Cluster) -> Operator:
    return Operator(cluster)


async def data_of_agent(operator: Operator) -> Raw:
    """Return the revision data of the daemon set, without a manager."""
    stored = await operator.create(DAEMON_SETS, daemon_set_json())
    await operator.delete(DAEMON_SETS, "agent")
    await settle(1)
    return template_data(stored.spec.template)


async def store(
    operator: Operator,
    name: str,
    data: Raw,
    number: int = 1,
    label: str | None = None,
    owner: OwnerReference | None = None,
) -> None:
    labels = {"app": "agent", **({HASH: label} if label else {})}
    meta = ObjectMeta(
        name=name,
        namespace="default",
        labels=labels,
        owner_references=(owner,) if owner else None,
    )
    revision = ControllerRevision(metadata=meta, data=data, revision=number)
    await operator.client.create(CONTROLLER_REVISIONS, revision)


async def seen(operator: Operator) -> dict[str, tuple[int, str | None]]:
    """Return number and hash label of revisions by name."""
    return {
        each.metadata.name: (each.revision, (each.metadata.labels or {}).get(HASH))
        for each in await operator.revisions()
    }


async def age(operator: Operator, seconds: int) -> None:
    spec = {"template": {"spec": {"terminationGracePeriodSeconds": seconds}}}
    await operator.patch(DAEMON_SETS, "agent", {"spec": spec})
    await settle(2)


def controlled_by(kind: str, uid: str) -> OwnerReference:
    return OwnerReference(
        api_version="apps/v1", kind=kind, name="agent", uid=uid, controller=True
    )


@pytest.mark.parametrize("same_data", [False, True])
async def test_a_name_that_is_taken_is_counted_as_a_collision(
    cluster: Cluster, operator: Operator, same_data: bool
) -> None:
    """The count goes into the status, and the next name is made with it.

    A stateful set of the same name may have the same template.
    """
    data = await data_of_agent(operator)
    taken, free = data_hash(data, None), data_hash(data, 1)
    other = data if same_data else Raw(b'{"other":"data"}')
    owner = controlled_by("StatefulSet" if same_data else "ConfigMap", "x")
    await store(operator, f"agent-{taken}", other, owner=owner)
    async with running(cluster, "n1"):
        await settle(5)
        status = (await operator.daemon_set()).status
        assert (status.collision_count, status.updated_number_scheduled) == (1, 1)
        (pod,) = await operator.pods()
        labels = {"app": "agent", HASH: free, "pod-template-generation": "1"}
        assert pod.metadata.labels == labels
        assert f"agent-{free}" in await seen(operator)


async def test_equal_revisions_are_united(cluster: Cluster, operator: Operator) -> None:
    """The newest stays, with its label on the pods; none of them is replaced."""
    data = await data_of_agent(operator)
    async with running(cluster, "n1", "n2"):
        await operator.run_all()
        before = await operator.placed()
        await store(operator, "agent-b", data, 7, "b")
        await settle(2)
        assert await seen(operator) == {"agent-b": (7, "b")}
        pods = await operator.pods()
        assert {(each.metadata.labels or {})[HASH] for each in pods} == {"b"}
        assert await operator.placed() == before
        assert await operator.numbers() == (2, 2, 2, 2, 0)


async def test_no_old_pod_becomes_current(cluster: Cluster, operator: Operator) -> None:
    """Only the pods of the united revisions get the label of the one that stays.

    Upstream labels all pods, and then never updates those of former templates.
    """
    async with running(cluster, "n1", "n2", **ON_DELETE):
        await operator.run_all()
        first = await seen(operator)
        await age(operator, 1)
        updated, kept = sorted(await operator.pods(), key=target_of)
        name = updated.metadata.name
        await operator.client.delete(PODS, "default", name, DeleteOptions(0))
        await operator.run_all()
        assert await operator.numbers() == (2, 2, 1, 2, 0)
        data = template_data((await operator.daemon_set()).spec.template)
        await store(operator, "agent-b", data, 7, "b")
        await operator.patch(DAEMON_SETS, "agent", {"spec": {"minReadySeconds": 1}})
        await settle(5)
        assert await seen(operator) == {**first, "agent-b": (7, "b")}
        new, still = sorted(await operator.pods(), key=target_of)
        assert (new.metadata.labels or {})[HASH] == "b"
        assert still.metadata == kept.metadata
        assert await operator.numbers() == (2, 2, 1, 2, 0)


async def test_the_oldest_unused_ones_go(cluster: Cluster, operator: Operator) -> None:
    async with running(cluster, "n1", **ON_DELETE, revisionHistoryLimit=1):
        await operator.run_all()
        for seconds in range(1, 5):
            await age(operator, seconds)
        left = (await seen(operator)).values()
        assert sorted(number for number, _ in left) == [1, 5]


async def test_users_may_make_and_delete(cluster: Cluster, operator: Operator) -> None:
    """As upstream's conformance test of revisions does with a second, equal one.

    It sees both, until something else causes a sync, and deletes the first itself.
    The pods, which name the first, are of the current template: they stay.
    """
    async with running(cluster, "n1", "n2"):
        await operator.run_all()
        before, agent = await operator.placed(), await operator.daemon_set()
        (first,) = await operator.revisions()
        owner = controller_reference(agent, DAEMON_SETS)
        await store(operator, "agent-b", first.data, 2, "b", owner)
        await settle(2)
        assert (await seen(operator)).keys() == {first.metadata.name, "agent-b"}
        await operator.delete(CONTROLLER_REVISIONS, first.metadata.name)
        await settle(2)
        assert await seen(operator) == {"agent-b": (2, "b")}
        assert await operator.placed() == before
        assert await operator.numbers() == (2, 2, 2, 2, 0)
        await age(operator, 1)
        assert {number for number, _ in (await seen(operator)).values()} == {2, 3}


async def test_upstreams_pods_are_taken(cluster: Cluster, operator: Operator) -> None:
    """It has another name for the same template; a lost one is created again."""
    data = await data_of_agent(operator)
    await store(operator, "agent-b", data, label="b")
    async with running(cluster, "n1", "n2"):
        await operator.run_all()
        placed = await operator.placed()
    async with cluster.manager(config()) as recording:
        await settle(10)
        assert recording.writes == []
        await operator.delete(CONTROLLER_REVISIONS, "agent-b")
        await settle(10)
    assert (await seen(operator)).keys() == {f"agent-{data_hash(data, None)}"}
    assert await operator.placed() == placed
    assert await operator.numbers() == (2, 2, 2, 2, 0)


async def test_a_lost_label_is_restored(cluster: Cluster, operator: Operator) -> None:
    """As written by managers before the label existed."""
    await store(operator, "agent-old", await data_of_agent(operator))
    async with running(cluster, "n1"):
        await settle(2)
        assert await seen(operator) == {"agent-old": (1, "agent-old")}
        (pod,) = await operator.pods()
        assert (pod.metadata.labels or {})[HASH] == "agent-old"


async def test_a_former_one_is_made_again(cluster: Cluster, operator: Operator) -> None:
    """It has the right name and data, until the garbage collector deletes it.

    Upstream has no revision then, until something else causes a sync.
    """
    data = await data_of_agent(operator)
    digest = data_hash(data, None)
    owner = controlled_by("DaemonSet", "00000000-0000-4000-8000-000000000000")
    await store(operator, f"agent-{digest}", data, label=digest, owner=owner)
    async with running(cluster, "n1"):
        await settle(60)
        (revision,) = await operator.revisions()
        (reference,) = revision.metadata.owner_references or ()
        agent = await operator.daemon_set()
        assert revision.metadata.name == f"agent-{digest}"
        assert reference.uid == agent.metadata.uid
        assert await operator.numbers() == (1, 1, 1, 0, 0)
        assert agent.status.collision_count is None
