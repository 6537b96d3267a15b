"""Deployments on a cluster in memory, beyond the recorded scenarios."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
)
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.devcluster.apiserver.strategy import Deletion
from tests.clusters import WORKLOADS, Cluster, make_config
from tests.controllers.builders import deployment_json, replica_set_json, template
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


async def test_a_name_that_is_taken_gives_another_hash(
    cluster: Cluster, user: User
) -> None:
    """The other owner's replica set is not changed, collisionCount increases."""
    async with cluster.nodes():
        async with cluster.manager():
            await user.create(DEPLOYMENTS, deployment_json())
            await settle()
        (first,) = (await user.client.list_page(REPLICASETS)).items
        await user.client.delete(DEPLOYMENTS, "default", "web")
        await user.client.delete(REPLICASETS, "default", first.metadata.name)
        stranger = replica_set_json(first.metadata.name, 0)
        stranger["spec"]["selector"]["matchLabels"] = {"app": "other"}
        stranger["spec"]["template"] = template(app="other")
        await user.create(REPLICASETS, stranger)
        async with cluster.manager():
            await user.create(DEPLOYMENTS, deployment_json())
            await settle()
    sets = (await user.client.list_page(REPLICASETS)).items
    ours = [each for each in sets if each.metadata.owner_references]
    assert len(sets) == 2
    assert [each.spec.replicas for each in ours] == [3]
    assert (await user.deployment()).status.collision_count == 1


async def test_a_quota_is_reported_once_and_retried_until_it_is_raised(
    cluster: Cluster, user: User
) -> None:
    """Both objects have ReplicaFailure until two minutes after a higher quota."""
    quota: JSON = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    kind = cluster.server.catalogue.find("", "v1", "resourcequotas")
    assert kind is not None
    cluster.server.objects.create(kind, "default", quota)
    config = make_config(controllers=(*WORKLOADS, "resourcequota"))
    async with cluster.nodes(), cluster.manager(config) as recording:
        await settle(1)  # until the quota is counted
        await user.create(DEPLOYMENTS, deployment_json(replicas=5))
        await settle(600)
        assert len(await user.pods()) == 2
        conditions = await user.conditions()
        assert conditions["ReplicaFailure"] == ("True", "FailedCreate")
        tries = len(recording.writes)
        await settle(1200)
        assert 10 <= len(recording.writes) - tries <= 22  # every two minutes
        stored = cluster.server.objects.find(kind, "default", "q").obj
        cluster.server.objects.update(
            kind, "default", "q", {**stored, "spec": {"hard": {"pods": "9"}}}
        )
        await settle(125)
        assert len(await user.pods()) == 5
        assert "ReplicaFailure" not in await user.conditions()
    (event, *_) = await user.events("FailedCreate")
    assert "exceeded quota: q" in event.message


async def test_in_a_terminating_namespace_nothing_is_created_or_reported(
    cluster: Cluster, user: User
) -> None:
    """Creation stops without an error."""
    cluster.add_namespace("ending")
    obj = replica_set_json()
    obj["metadata"]["namespace"] = "ending"
    await user.create(REPLICASETS, obj)
    late = deployment_json()
    late["metadata"]["namespace"] = "ending"
    await user.create(DEPLOYMENTS, late)
    kind = cluster.server.catalogue.find("", "v1", "namespaces")
    assert kind is not None
    cluster.server.objects.delete(kind, "", "ending", Deletion())
    async with cluster.manager() as recording:
        await settle(300)
    refused = [each for each in recording.writes if each.status >= 400]
    assert len(refused) <= 4
    assert await user.events("FailedCreate") == []
    subject = await user.client.get(REPLICASETS, "ending", "rs")
    assert subject.status.conditions is None


async def test_a_deployment_that_selects_all_pods_gets_a_warning_and_others_continue(
    cluster: Cluster, user: User
) -> None:
    """Validation refuses it today, but it may be stored since an earlier version."""
    _store(cluster, _without_selector(deployment_json("bad")))
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json("good"))
        await settle()
        assert (await user.deployment("good")).status.available_replicas == 3
        (event,) = await user.events("SelectingAll")
        assert event.message == (
            "This deployment is selecting all pods. A non-empty selector is required."
        )
        assert (await user.deployment("bad")).status.observed_generation == 1


def _without_selector(obj: JSON) -> JSON:
    obj["spec"]["selector"] = {}
    return obj


def _store(cluster: Cluster, obj: JSON) -> None:
    """Store an object without validation."""
    collection = cluster.server.storage.collection("deployments.apps")
    metadata = {**obj["metadata"], "uid": "bad", "generation": 1}
    collection.put(("default", metadata["name"]), {**obj, "metadata": metadata})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"selector": {"matchLabels": {"app": "other"}}}, "InvalidTemplate"),
        ({"template": {"metadata": {}, "spec": {}}}, "InvalidTemplate"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            "InvalidSelector",
        ),
        ({"strategy": {"type": "Sideways"}}, "InvalidStrategy"),
    ],
)
async def test_a_deployment_that_cannot_be_used_gets_a_warning_event(
    cluster: Cluster, user: User, change: JSON, reason: str
) -> None:
    """Other objects are still synced."""
    obj = deployment_json("bad")
    obj["spec"].update(change)
    _store(cluster, obj)
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json("good"))
        await settle()
        assert (await user.deployment("good")).status.available_replicas == 3
    (event, *_) = await user.events(reason)
    assert event.type == "Warning"
    assert event.involved_object.name == "bad"


async def test_a_deployment_that_is_being_deleted_gets_its_status_only(
    cluster: Cluster, user: User
) -> None:
    """Its replica sets are not changed any more."""
    obj = deployment_json()
    async with cluster.nodes(), cluster.manager() as recording:
        await user.create(DEPLOYMENTS, obj)
        await settle()
        policy: Any = "Foreground"
        await user.client.delete(
            DEPLOYMENTS, "default", "web", DeleteOptions(propagation_policy=policy)
        )
        recording.writes.clear()
        await user.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 9}})
        await settle()
        subject = await user.deployment()
        assert subject.status.observed_generation == subject.metadata.generation
        (replica_set,) = (await user.replica_sets()).values()
        assert replica_set.spec.replicas == 3
        assert {each.path.rpartition("/")[2] for each in recording.writes} == {"status"}


async def test_a_replica_set_that_is_deleted_during_a_rollout_is_created_again(
    cluster: Cluster, user: User
) -> None:
    """The rollout completes."""
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json(replicas=4))
        await settle()
        await user.set_image("app:v2")
        await settle(0.5)
        newest = (await user.replica_sets())["2"]
        await user.client.delete(REPLICASETS, "default", newest.metadata.name)
        await settle(60)
        subject = await user.deployment()
        assert (subject.status.updated_replicas, subject.status.available_replicas) == (
            4,
            4,
        )


async def test_without_history_every_old_replica_set_goes(
    cluster: Cluster, user: User
) -> None:
    """RevisionHistoryLimit 0."""
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json(revisionHistoryLimit=0))
        await settle()
        await user.set_image("app:v2")
        await settle(60)
        assert list(await user.replica_sets()) == ["2"]


async def test_a_changed_min_ready_seconds_reaches_the_replica_set(
    cluster: Cluster, user: User
) -> None:
    """Without a rollout."""
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        await user.patch(DEPLOYMENTS, "web", {"spec": {"minReadySeconds": 7}})
        await settle()
        (replica_set,) = (await user.replica_sets()).values()
        assert replica_set.spec.min_ready_seconds == 7


async def test_a_restarted_manager_continues_where_the_other_stopped(
    cluster: Cluster, user: User
) -> None:
    """No state is only in memory."""
    async with cluster.nodes():
        async with cluster.manager():
            await user.create(DEPLOYMENTS, deployment_json(replicas=6))
            await settle()
            await user.set_image("app:v2")
            await settle(1.5)
        await settle()
        async with cluster.manager():
            await settle(60)
    subject = await user.deployment()
    assert (subject.status.updated_replicas, subject.status.replicas) == (6, 6)


@pytest.mark.slow
async def test_a_cluster_without_changes_gets_no_writes(
    cluster: Cluster, user: User
) -> None:
    """No write in a whole day."""
    async with cluster.nodes(), cluster.manager() as recording:
        for number in range(5):
            await user.create(DEPLOYMENTS, deployment_json(f"d{number}"))
        await settle(60)
        recording.writes.clear()
        await settle(86_400)
        assert recording.writes == []
