"""Controller revisions of daemon sets on a cluster in memory."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from controller_manager.api.apps.v1 import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    ControllerRevision,
    DaemonSet,
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


async def data_of_agent(operator: Operator) -> Raw:
    """Return the revision data of the daemon set, without a manager."""
    await operator.create(DAEMON_SETS, daemon_set_json())
    stored = await operator.daemon_set()
    await operator.client.delete(DAEMON_SETS, "default", "agent")
    await settle(1)
    return template_data(stored.spec.template)


async def store_revision(
    operator: Operator, name: str, data: Raw, number: int = 1, **metadata: Any
) -> None:
    """Store a revision with the labels of the template, and more in `metadata`."""
    labels = {"app": "agent", **metadata.pop("labels", {})}
    meta = ObjectMeta(name=name, namespace="default", labels=labels, **metadata)
    revision = ControllerRevision(metadata=meta, data=data, revision=number)
    await operator.client.create(CONTROLLER_REVISIONS, revision)


def seen(revisions: list[ControllerRevision]) -> dict[str, tuple[int, str | None]]:
    """Return number and hash label of revisions by name."""
    return {
        each.metadata.name: (each.revision, (each.metadata.labels or {}).get(HASH))
        for each in revisions
    }


def controlled_by(daemon_set: DaemonSet) -> OwnerReference:
    return controller_reference(daemon_set, DAEMON_SETS)


async def test_a_name_that_other_data_has_is_counted_as_a_collision(
    cluster: Cluster,
) -> None:
    """The count goes into the status, and the next name is made with it."""
    operator = Operator(cluster)
    data = await data_of_agent(operator)
    taken, free = data_hash(data, None), data_hash(data, 1)
    owner = OwnerReference(
        api_version="v1", kind="ConfigMap", name="x", uid="x", controller=True
    )
    other = Raw(msgspec.json.encode({"other": "data"}))
    await store_revision(operator, f"agent-{taken}", other, owner_references=(owner,))
    async with running(cluster, "n1") as (operator, _):
        await settle(5)
        status = (await operator.daemon_set()).status
        assert (status.collision_count, status.updated_number_scheduled) == (1, 1)
        assert (await operator.pods())[0].metadata.labels == {
            "app": "agent",
            HASH: free,
            "pod-template-generation": "1",
        }
        assert f"agent-{free}" in seen(await operator.revisions())


async def test_equal_revisions_are_united(cluster: Cluster) -> None:
    """The newest stays, with its label on the pods; none of them is replaced."""
    operator = Operator(cluster)
    data = await data_of_agent(operator)
    async with running(cluster, "n1", "n2") as (operator, _):
        await operator.run_all()
        before = await operator.placed()
        await store_revision(operator, "agent-b", data, 7, labels={HASH: "b"})
        await settle(2)
        assert seen(await operator.revisions()) == {"agent-b": (7, "b")}
        pods = await operator.pods()
        assert {(each.metadata.labels or {})[HASH] for each in pods} == {"b"}
        assert await operator.placed() == before
        assert await operator.numbers() == (2, 2, 2, 2, 0)


async def test_uniting_revisions_makes_no_old_pod_current(cluster: Cluster) -> None:
    """Only the pods of the united revisions get the label of the one that stays.

    Upstream labels all pods, and then never updates those of former templates.
    """
    on_delete = {"type": "OnDelete"}
    async with running(cluster, "n1", "n2", updateStrategy=on_delete) as (operator, _):
        await operator.run_all()
        (first,) = await operator.revisions()
        old = (first.metadata.labels or {})[HASH]
        change = {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}
        await operator.patch(DAEMON_SETS, "agent", {"spec": change})
        await settle(2)
        updated, kept = sorted(await operator.pods(), key=target_of)
        options = DeleteOptions(grace_period_seconds=0)
        await operator.client.delete(PODS, "default", updated.metadata.name, options)
        await operator.run_all()
        assert await operator.numbers() == (2, 2, 1, 2, 0)
        data = template_data((await operator.daemon_set()).spec.template)
        await store_revision(operator, "agent-b", data, 7, labels={HASH: "b"})
        await operator.patch(DAEMON_SETS, "agent", {"spec": {"minReadySeconds": 1}})
        await settle(5)
        assert seen(await operator.revisions()) == {
            first.metadata.name: (1, old),
            "agent-b": (7, "b"),
        }
        new, still = sorted(await operator.pods(), key=target_of)
        assert (new.metadata.labels or {})[HASH] == "b"
        assert still.metadata == kept.metadata
        assert await operator.numbers() == (2, 2, 1, 2, 0)


async def test_the_oldest_revisions_go_unless_a_pod_has_them(cluster: Cluster) -> None:
    """A pod of the first is left, so the limit of one leaves no other old revision."""
    async with running(
        cluster, "n1", updateStrategy={"type": "OnDelete"}, revisionHistoryLimit=1
    ) as (operator, _):
        await operator.run_all()
        for seconds in range(1, 5):
            change = {"template": {"spec": {"terminationGracePeriodSeconds": seconds}}}
            await operator.patch(DAEMON_SETS, "agent", {"spec": change})
            await settle(2)
        left = seen(await operator.revisions()).values()
        assert sorted(number for number, _ in left) == [1, 5]


async def test_a_user_may_create_and_delete_revisions(cluster: Cluster) -> None:
    """As upstream's conformance test of revisions does with a second, equal one.

    It sees both, until something else causes a sync, and deletes the first itself.
    The pods, which name the first, are of the current template: they stay.
    """
    async with running(cluster, "n1", "n2") as (operator, _):
        await operator.run_all()
        before, agent = await operator.placed(), await operator.daemon_set()
        (first,) = await operator.revisions()
        await store_revision(
            operator,
            "agent-b",
            first.data,
            2,
            labels={HASH: "b"},
            owner_references=(controlled_by(agent),),
        )
        await settle(2)
        assert seen(await operator.revisions()).keys() == {
            first.metadata.name,
            "agent-b",
        }
        await operator.client.delete(
            CONTROLLER_REVISIONS, "default", first.metadata.name
        )
        await settle(2)
        assert seen(await operator.revisions()) == {"agent-b": (2, "b")}
        assert await operator.placed() == before
        assert await operator.numbers() == (2, 2, 2, 2, 0)
        spec = {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}
        await operator.patch(DAEMON_SETS, "agent", {"spec": spec})
        await settle(2)
        numbers = {number for number, _ in seen(await operator.revisions()).values()}
        assert numbers == {2, 3}


async def test_pods_of_upstreams_revision_are_taken_over(cluster: Cluster) -> None:
    """It has another name for the same template; a lost one is created again."""
    operator = Operator(cluster)
    data = await data_of_agent(operator)
    await store_revision(operator, "agent-b", data, labels={HASH: "b"})
    async with running(cluster, "n1", "n2") as (operator, _):
        await operator.run_all()
        placed = await operator.placed()
    async with cluster.manager(config()) as recording:
        await settle(10)
        assert recording.writes == []
        await operator.client.delete(CONTROLLER_REVISIONS, "default", "agent-b")
        await settle(10)
    name = f"agent-{data_hash(data, None)}"
    assert seen(await operator.revisions()).keys() == {name}
    assert await operator.placed() == placed
    assert await operator.numbers() == (2, 2, 2, 2, 0)


async def test_a_revision_without_its_label_gets_its_name(cluster: Cluster) -> None:
    """As written by managers before the label existed."""
    operator = Operator(cluster)
    data = await data_of_agent(operator)
    await store_revision(operator, "agent-old", data)
    async with running(cluster, "n1") as (operator, _):
        await settle(2)
        assert seen(await operator.revisions()) == {"agent-old": (1, "agent-old")}
        (pod,) = await operator.pods()
        assert (pod.metadata.labels or {})[HASH] == "agent-old"


async def test_a_revision_of_a_former_daemon_set_is_made_again(
    cluster: Cluster,
) -> None:
    """It has the right name and data, until the garbage collector deletes it.

    Upstream has no revision then, until something else causes a sync.
    """
    operator = Operator(cluster)
    data = await data_of_agent(operator)
    name = f"agent-{data_hash(data, None)}"
    owner = OwnerReference(
        api_version="apps/v1",
        kind="DaemonSet",
        name="agent",
        uid="00000000-0000-4000-8000-000000000000",
        controller=True,
    )
    await store_revision(
        operator,
        name,
        data,
        labels={HASH: data_hash(data, None)},
        owner_references=(owner,),
    )
    async with running(cluster, "n1") as (operator, _):
        await settle(60)
        (revision,) = await operator.revisions()
        (reference,) = revision.metadata.owner_references or ()
        agent = await operator.daemon_set()
        assert (revision.metadata.name, reference.uid) == (name, agent.metadata.uid)
        assert await operator.numbers() == (1, 1, 1, 0, 0)
        assert agent.status.collision_count is None


async def test_a_revision_of_a_stateful_set_is_not_taken(cluster: Cluster) -> None:
    """A stateful set of the same name may have the same template."""
    operator = Operator(cluster)
    data = await data_of_agent(operator)
    name = f"agent-{data_hash(data, None)}"
    owner = OwnerReference(
        api_version="apps/v1",
        kind="StatefulSet",
        name="agent",
        uid="s",
        controller=True,
    )
    await store_revision(operator, name, data, owner_references=(owner,))
    async with running(cluster, "n1") as (operator, _):
        await settle(5)
        assert (await operator.daemon_set()).status.collision_count == 1
