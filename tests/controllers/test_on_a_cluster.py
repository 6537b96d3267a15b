"""Both controllers, beyond the recorded scenarios, in memory and virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import msgspec
import pytest

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    Deployment,
    ReplicaSet,
)
from controller_manager.api.core.v1 import EVENTS, PODS, Event, Pod
from controller_manager.api.resource import Resource
from controller_manager.client.builder import Connections
from controller_manager.client.client import DeleteOptions, PatchType
from controller_manager.client.errors import TransportError
from controller_manager.client.transport import Request, Response, Stream, Transport
from controller_manager.devcluster.server.deletion import Deletion
from controller_manager.options.config import FeatureGates, LeaderElectionConfig
from controller_manager.runtime.worker import Workers
from tests.clusters import Cluster, make_config, run_manager
from tests.controllers.builders import JSON, deployment_json, template
from tests.simulation.ending import remembered

pytestmark = pytest.mark.looptime

REVISION = "deployment.kubernetes.io/revision"


class User:
    """What a user of the cluster does and sees."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def create(self, resource: Resource[Any], obj: JSON) -> Any:
        namespace = obj["metadata"].get("namespace", "default")
        body = msgspec.json.encode(obj)
        return await self.client.create_json(resource, namespace, body)

    async def patch(self, resource: Resource[Any], name: str, patch: JSON) -> Any:
        return await self.client.patch(
            resource, "default", name, patch, PatchType.MERGE
        )

    async def set_image(self, image: str, name: str = "web") -> None:
        containers = [{"name": "c", "image": image}]
        spec = {"template": {"spec": {"containers": containers}}}
        await self.patch(DEPLOYMENTS, name, {"spec": spec})

    async def deployment(self, name: str = "web") -> Deployment:
        return await self.client.get(DEPLOYMENTS, "default", name)

    async def replica_sets(self) -> dict[str, ReplicaSet]:
        """Return replica sets by revision."""
        page = await self.client.list_page(REPLICASETS)
        return {
            (each.metadata.annotations or {}).get(REVISION, each.metadata.name): each
            for each in page.items
        }

    async def pods(self) -> list[Pod]:
        return (await self.client.list_page(PODS)).items

    async def events(self, reason: str) -> list[Event]:
        page = await self.client.list_page(EVENTS)
        return [each for each in page.items if each.reason == reason]

    async def conditions(self, name: str = "web") -> dict[str, tuple[str, str]]:
        subject = await self.deployment(name)
        return {
            each.type: (each.status, each.reason)
            for each in subject.status.conditions or ()
        }


@pytest.fixture
def user(cluster: Cluster) -> User:
    return User(cluster)


async def settle(seconds: float = 20) -> None:
    await asyncio.sleep(seconds)


def replica_set_json(name: str = "rs", replicas: int = 3, **spec: Any) -> JSON:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(app=name),
            **spec,
        },
    }


async def test_a_broken_update_keeps_the_old_pods_and_is_rolled_back(
    cluster: Cluster, user: User
) -> None:
    """Availability never falls below what the strategy allows."""
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json(replicas=4))
        await settle()
        await user.set_image("broken:v2")
        await settle()
        stuck = await user.deployment()
        assert (stuck.status.available_replicas, stuck.status.updated_replicas) == (
            3,
            2,
        )
        await user.set_image("app:v1")
        await settle(60)
        sets = await user.replica_sets()
        assert {key: each.spec.replicas for key, each in sets.items()} == {
            "2": 0,
            "3": 4,
        }
        assert await user.conditions() == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }


async def test_an_undo_that_does_not_get_on_misses_its_deadline(
    cluster: Cluster, user: User
) -> None:
    """Though its replica set is not new (upstream never says so)."""
    async with cluster.nodes() as _, cluster.manager():
        obj = deployment_json(replicas=2, progressDeadlineSeconds=30)
        obj["spec"]["template"] = template("broken:v1", app="web")
        await user.create(DEPLOYMENTS, obj)
        await settle()
        await user.set_image("app:v2")
        await settle(60)
        assert (await user.conditions())["Progressing"][1] == "NewReplicaSetAvailable"
        await user.set_image("broken:v1")
        await settle(100)
        assert (await user.conditions())["Progressing"] == (
            "False",
            "ProgressDeadlineExceeded",
        )


@pytest.mark.parametrize(("asked", "image"), [("1", "app:v1"), ("0", "app:v2")])
async def test_the_rollback_annotation_is_obeyed(
    cluster: Cluster, user: User, asked: str, image: str
) -> None:
    """To a revision by number, or to the last; annotations come back too."""
    async with cluster.nodes(), cluster.manager():
        obj = deployment_json()
        obj["metadata"]["annotations"] = {"kubernetes.io/change-cause": "app:v1"}
        await user.create(DEPLOYMENTS, obj)
        await settle()
        for version in ("app:v2", "app:v3"):
            cause = {"kubernetes.io/change-cause": version}
            await user.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": cause}})
            await user.set_image(version)
            await settle()
        request = {"deprecated.deployment.rollback.to": asked}
        await user.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": request}})
        await settle()
        subject = await user.client.get_json(DEPLOYMENTS, "default", "web")
        assert subject["spec"]["template"]["spec"]["containers"][0]["image"] == image
        assert subject["metadata"]["annotations"] == {
            "kubernetes.io/change-cause": image,
            REVISION: "4",
        }
        (event,) = await user.events("DeploymentRollback")
        revision = image[-1]
        assert event.message == f'Rolled back deployment "web" to revision {revision}'


async def test_a_pause_keeps_the_revision_that_a_rollback_waits_for(
    cluster: Cluster, user: User
) -> None:
    """However short the history is to be."""
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        await user.set_image("app:v2")
        await settle()
        request = {"deprecated.deployment.rollback.to": "1"}
        await user.patch(
            DEPLOYMENTS,
            "web",
            {
                "metadata": {"annotations": request},
                "spec": {"paused": True, "revisionHistoryLimit": 0},
            },
        )
        await settle()
        assert sorted(await user.replica_sets()) == ["1", "2"]
        await user.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})
        await settle(60)
        subject = await user.client.get_json(DEPLOYMENTS, "default", "web")
        assert subject["spec"]["template"]["spec"]["containers"][0]["image"] == "app:v1"
        assert sorted(await user.replica_sets()) == ["3"]


@pytest.mark.parametrize(
    ("asked", "reason", "message"),
    [
        (
            "9",
            "DeploymentRollbackRevisionNotFound",
            "Unable to find the revision to rollback to.",
        ),
        (
            "0",
            "DeploymentRollbackRevisionNotFound",
            "Unable to find last revision.",
        ),
        (
            "1",
            "DeploymentRollbackTemplateUnchanged",
            (
                "The rollback revision contains the same template as current "
                'deployment "web"'
            ),
        ),
    ],
)
async def test_a_rollback_that_cannot_be_is_explained(
    cluster: Cluster, user: User, asked: str, reason: str, message: str
) -> None:
    """The annotation goes, the template stays."""
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        request = {"deprecated.deployment.rollback.to": asked}
        await user.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": request}})
        await settle()
        (event,) = await user.events(reason)
        assert (event.type, event.message) == ("Warning", message)
        metadata = (await user.deployment()).metadata
        assert metadata.annotations == {REVISION: "1"}


async def test_a_name_that_is_taken_gives_another_hash(
    cluster: Cluster, user: User
) -> None:
    """A stranger's replica set is left alone, collisionCount goes up."""
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


async def test_a_quota_is_told_once_and_met_again_when_it_is_raised(
    cluster: Cluster, user: User
) -> None:
    """ReplicaFailure on both objects; within two minutes of room all is well."""
    quota: JSON = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    kind = cluster.server.catalogue.find("", "v1", "resourcequotas")
    assert kind is not None
    cluster.server.objects.create(kind, "default", quota)
    async with cluster.nodes(), cluster.manager() as recording:
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


async def test_in_a_namespace_that_ends_nothing_is_created_or_complained_about(
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


async def test_a_deployment_that_selects_all_is_warned_and_others_go_on(
    cluster: Cluster, user: User
) -> None:
    """What validation would not let in today may be stored from before."""
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
    """Put an object into the store past validation."""
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
async def test_what_cannot_be_used_gets_a_warning_event(
    cluster: Cluster, user: User, change: JSON, reason: str
) -> None:
    """And does not stop other objects."""
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
    """Its replica sets are no longer touched."""
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


async def test_a_replica_set_deleted_in_the_middle_is_made_again(
    cluster: Cluster, user: User
) -> None:
    """And the rollout comes to its end."""
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


async def test_a_gate_leaves_terminating_pods_uncounted(
    cluster: Cluster, user: User
) -> None:
    """DeploymentReplicaSetTerminatingReplicas=false: the field stays away."""
    gates = FeatureGates(deployment_replica_set_terminating_replicas=False)
    config = replace(make_config(), features=gates)
    async with cluster.nodes(), cluster.manager(config):
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        (replica_set,) = (await user.replica_sets()).values()
        assert replica_set.status.terminating_replicas is None
        assert (await user.deployment()).status.terminating_replicas is None


# Faults


class Lossy:
    """A transport whose requests a test can spoil."""

    host = "lossy"

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.lose: Callable[[Request], str] = lambda _: ""

    async def request(self, request: Request) -> Response:
        how = self.lose(request)
        if how == "before":
            raise TransportError(how)
        answer = await self.inner.request(request)
        if how == "after":
            raise TransportError(how)
        if how == "500":
            return Response(500, {}, b'{"code":500,"message":"etcd timed out"}')
        return answer

    async def stream(self, request: Request) -> Stream:
        return await self.inner.stream(request)

    async def close(self) -> None:
        pass


def creates_pod(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/pods")


@pytest.mark.parametrize("how", ["before", "after", "500"])
async def test_a_create_whose_answer_is_lost_makes_no_surplus_pod(
    cluster: Cluster, user: User, how: str
) -> None:
    """Whether it was carried out or not, there are exactly as many as wanted."""
    lossy = Lossy(cluster.transport)
    lost = 0
    most = 0

    def lose(request: Request) -> str:
        nonlocal lost
        if creates_pod(request) and lost < 4:
            lost += 1
            return how
        return ""

    lossy.lose = lose
    async with cluster.manager(transport=lossy):
        await user.create(REPLICASETS, replica_set_json(replicas=3))
        for _ in range(100):
            await asyncio.sleep(0.1)
            most = max(most, len(await user.pods()))
    assert lost >= 3
    assert (len(await user.pods()), most) == (3, 3)


async def test_a_watch_that_lags_makes_no_surplus_pod(
    cluster: Cluster, user: User
) -> None:
    """Not even after the expectations have timed out (kubernetes#129795)."""
    frozen = asyncio.Event()
    thawed = asyncio.Event()
    stream = cluster.transport.stream

    class Lagging:
        def __init__(self, inner: Stream) -> None:
            self.inner = inner
            self.status, self.headers = inner.status, inner.headers

        async def chunks(self) -> Any:
            async for chunk in self.inner.chunks():
                if frozen.is_set():
                    await thawed.wait()
                yield chunk

        async def close(self) -> None:
            await self.inner.close()

    async def lag(request: Request) -> Any:
        inner = await stream(request)
        return Lagging(inner) if request.path.endswith("/pods") else inner

    cluster.transport.stream = lag  # type: ignore[method-assign]
    async with cluster.manager():
        frozen.set()
        await user.create(REPLICASETS, replica_set_json(replicas=3))
        await settle(900)
        await user.patch(REPLICASETS, "rs", {"metadata": {"labels": {"poke": "1"}}})
        await settle(900)
        assert len(await user.pods()) == 3
        thawed.set()
        await settle(900)
        assert len(await user.pods()) == 3
        subject = await user.client.get(REPLICASETS, "default", "rs")
        assert subject.status.replicas == 3


async def test_a_pod_whose_deletion_nobody_saw_is_replaced_in_the_end(
    cluster: Cluster, user: User
) -> None:
    """An expectation that is never met is looked into, not waited for."""
    lossy = Lossy(cluster.transport)
    async with cluster.manager(transport=lossy):
        await user.create(REPLICASETS, replica_set_json(replicas=2))
        await settle()
        victim = (await user.pods())[0]
        # It goes in the same moment in which the controller creates another.
        await user.patch(REPLICASETS, "rs", {"spec": {"replicas": 3}})
        await user.client.delete(PODS, "default", victim.metadata.name)
        await settle(400)
        assert len(await user.pods()) == 3


async def test_a_manager_that_restarts_goes_on_where_the_other_stopped(
    cluster: Cluster, user: User
) -> None:
    """Nothing is kept in memory only."""
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
async def test_a_quiet_cluster_is_left_quiet(cluster: Cluster, user: User) -> None:
    """Stably matching: not one write in a day."""
    async with cluster.nodes(), cluster.manager() as recording:
        for number in range(5):
            await user.create(DEPLOYMENTS, deployment_json(f"d{number}"))
        await settle(60)
        recording.writes.clear()
        await settle(86_400)
        assert recording.writes == []


async def test_many_orphans_cost_a_replica_set_nothing(
    cluster: Cluster, user: User
) -> None:
    """They are found by label; only those that match are adopted."""
    for number in range(200):
        labels = {"app": "rs" if number < 2 else f"other{number}"}
        body = {"metadata": {"name": f"p{number}", "labels": labels}}
        body["spec"] = template()["spec"]
        await user.create(PODS, body)
    async with cluster.manager() as recording:
        await user.create(REPLICASETS, replica_set_json(replicas=2))
        await settle()
    adopted = [
        each.metadata.name
        for each in await user.pods()
        if each.metadata.owner_references
    ]
    assert sorted(adopted) == ["p0", "p1"]
    assert len(recording.writes) == 3


@dataclass
class Upgrading:
    """A way to an API server that shows a new default once it is upgraded."""

    inner: Transport
    host: str = "test"
    is_upgraded: bool = False
    reads: list[str] = field(default_factory=list)

    def _shown(self, body: bytes) -> bytes:
        if not self.is_upgraded:
            return body
        return body.replace(b'"image":"app:', b'"newDefault":true,"image":"app:')

    async def request(self, request: Request) -> Response:
        if request.method == "GET":
            self.reads.append(request.path)
        answer = await self.inner.request(request)
        return replace(answer, body=self._shown(answer.body))

    async def stream(self, request: Request) -> Stream:
        return _Shown(await self.inner.stream(request), self._shown)

    async def close(self) -> None:
        pass


@dataclass
class _Shown:
    inner: Stream
    shown: Callable[[bytes], bytes]

    @property
    def status(self) -> int:
        return self.inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.inner.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.inner.chunks()) as chunks:
            async for chunk in chunks:
                yield self.shown(chunk)

    async def close(self) -> None:
        await self.inner.close()


async def test_a_replica_set_that_shows_a_new_default_is_the_deployments_own(
    cluster: Cluster, user: User
) -> None:
    """What is cached of the deployment lacks the default then."""
    transport = Upgrading(cluster.transport)
    async with cluster.nodes(), cluster.manager(transport=transport):
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        transport.is_upgraded = True
        (name,) = [each.metadata.name for each in (await user.replica_sets()).values()]
        annotation = {"metadata": {"annotations": {"note": "1"}}}
        await user.patch(REPLICASETS, name, annotation)
        await settle()
        assert len(await user.replica_sets()) == 1
        assert (await user.deployment()).status.collision_count is None


async def test_a_default_that_is_new_to_the_api_server_makes_no_new_replica_set(
    cluster: Cluster, user: User
) -> None:
    """``kubectl annotate`` after its upgrade shows the deployment anew, and no other.

    What is cached of the replica set lacks the default, though it has it, too.
    """
    transport = Upgrading(cluster.transport)
    async with cluster.nodes(), cluster.manager(transport=transport):
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        transport.is_upgraded = True
        transport.reads.clear()
        annotation = {"metadata": {"annotations": {"note": "1"}}}
        await user.patch(DEPLOYMENTS, "web", annotation)
        await settle()
        assert len(await user.replica_sets()) == 1
        assert len([path for path in transport.reads if "replicasets/" in path]) == 1
        await user.set_image("app:v2")
        await settle()
        assert len(await user.replica_sets()) == 2
        deployed = await user.deployment()
        assert deployed.status.updated_replicas == deployed.status.replicas == 3


async def test_a_template_that_gains_a_field_makes_a_new_replica_set(
    cluster: Cluster, user: User
) -> None:
    """After one look at fresh objects, which differ, too."""
    transport = Upgrading(cluster.transport)
    async with cluster.nodes(), cluster.manager(transport=transport):
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        transport.reads.clear()
        spec = {"template": {"spec": {"priorityClassName": "high"}}}
        await user.patch(DEPLOYMENTS, "web", {"spec": spec})
        await settle()
        assert len(await user.replica_sets()) == 2
        assert len(transport.reads) == 2  # the deployment and its replica set


async def test_nothing_is_kept_of_a_replica_set_that_went_in_mid_sync(
    cluster: Cluster,
) -> None:
    """What a sync noted after the deletion is dropped by the next one (seed 321)."""
    config = make_config(leader_election=LeaderElectionConfig())
    connections = Connections(cluster.transport)
    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        workers = manager.controllers["replicaset-controller"].controller
        assert isinstance(workers, Workers)
        controller = workers._reconcile.__self__  # type: ignore[attr-defined]
        controller._takeover.looked_at("default/gone")
        controller._expectations.doubt("default/gone")
        assert remembered(manager) != {}
        workers.queue.add("default/gone")
        await workers.queue.drained()
        assert remembered(manager) == {}


async def test_a_replica_set_that_is_gone_gets_no_more_pods(
    cluster: Cluster, user: User
) -> None:
    """Though a cache that lags has it still, and its pods are collected at once."""

    async def collect() -> None:
        while True:
            for pod in await user.pods():
                await user.client.delete(PODS, "default", pod.metadata.name)
            await asyncio.sleep(0.05)

    connections = Connections(cluster.transport)
    config = make_config()
    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle()
        informer = manager.informers.informer(REPLICASETS)
        with mock.patch.object(informer, "deleted"):
            await user.client.delete(DEPLOYMENTS, "default", "web")
            for each in (await user.replica_sets()).values():
                await user.client.delete(REPLICASETS, "default", each.metadata.name)
            collecting = asyncio.create_task(collect())
            await settle()
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)
        assert len(informer.store) == 1
        assert await user.pods() == []
    created = await user.events("SuccessfulCreate")
    assert sum(each.count for each in created) <= 6


async def test_a_path_that_is_not_found_does_not_mean_that_an_owner_is_gone(
    cluster: Cluster, user: User
) -> None:
    """A proxy, or an API server that starts, may say so of anything."""

    class Starting:
        host = "test"
        lost = 0

        async def request(self, request: Request) -> Response:
            if request.path.endswith("/replicasets/rs/status") and self.lost < 2:
                self.lost += 1
                return Response(404, {}, b"404 page not found\n")
            return await cluster.transport.request(request)

        async def stream(self, request: Request) -> Stream:
            return await cluster.transport.stream(request)

        async def close(self) -> None:
            pass

    transport = Starting()
    async with cluster.manager(transport=transport):
        await user.create(REPLICASETS, replica_set_json("rs", replicas=2))
        await settle()
        assert transport.lost == 2
        await user.patch(REPLICASETS, "rs", {"spec": {"replicas": 4}})
        await settle()
        assert len(await user.pods()) == 4
