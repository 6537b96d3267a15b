"""Deployments on a cluster in memory, beyond the recorded scenarios."""

from collections import Counter
from dataclasses import replace

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import WORKLOADS, Cluster, make_config
from tests.controllers.builders import deployment_json
from tests.controllers.user import User, settle
from tests.informers.test_informer import Faulty

pytestmark = pytest.mark.looptime


async def test_a_quota_is_reported_and_retried(cluster: Cluster, user: User) -> None:
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


def config_with(gates: dict[str, bool]) -> Config:
    return replace(make_config(), features=FeatureGates(gates))


@pytest.mark.parametrize("gate", [True, False])
async def test_a_gate_counts_leaving(cluster: Cluster, user: User, gate: bool) -> None:
    config = config_with({"DeploymentReplicaSetTerminatingReplicas": gate})
    async with cluster.nodes(), cluster.manager(config):
        await user.create(DEPLOYMENTS, deployment_json(replicas=3))
        await settle()
        await user.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
        await settle(10)
        (replica_set,) = (await user.replica_sets()).values()
        expected = 2 if gate else None
        assert replica_set.status.terminating_replicas == expected
        assert (await user.deployment()).status.terminating_replicas == expected


class Upgrading(Faulty):
    """A transport to an API server that adds a new default once it is upgraded."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.spoil = self._shown
        self.is_upgraded = False

    def _shown(self, body: bytes) -> bytes:
        if not self.is_upgraded:
            return body
        return body.replace(b'"image":"app:', b'"newDefault":true,"image":"app:')

    async def request(self, request: Request) -> Response:
        answer = await super().request(request)
        return replace(answer, body=self._shown(answer.body))

    def reads(self) -> list[str]:
        """Return the paths of single objects and lists that were read."""
        return [each.path for each in self.requests if is_read(each)]


def is_read(request: Request) -> bool:
    return request.method == "GET" and ("watch", "true") not in request.query


async def test_a_new_default_of_a_replica_set(cluster: Cluster, user: User) -> None:
    """The cached deployment lacks the default then."""
    transport = Upgrading(cluster)
    async with cluster.nodes(), cluster.manager(transport=transport):
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        transport.is_upgraded = True
        (name,) = [each.metadata.name for each in (await user.replica_sets()).values()]
        await user.patch(REPLICASETS, name, NOTED)
        await settle()
        assert len(await user.replica_sets()) == 1
        assert (await user.deployment()).status.collision_count is None


async def test_a_new_default_of_a_deployment(cluster: Cluster, user: User) -> None:
    """``kubectl annotate`` after its upgrade shows the deployment anew, and no other.

    The cached replica set lacks the default, though the stored one has it, too.
    """
    transport = Upgrading(cluster)
    async with cluster.nodes(), cluster.manager(transport=transport):
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        transport.is_upgraded = True
        transport.requests.clear()
        await user.patch(DEPLOYMENTS, "web", NOTED)
        await settle()
        assert len(await user.replica_sets()) == 1
        assert sum("replicasets/" in path for path in transport.reads()) == 1
        await user.set_image("app:v2")
        await settle()
        assert len(await user.replica_sets()) == 2
        deployed = await user.deployment()
        assert deployed.status.updated_replicas == deployed.status.replicas == 3


async def test_another_field_is_another_template(cluster: Cluster, user: User) -> None:
    transport = Upgrading(cluster)
    async with cluster.nodes(), cluster.manager(transport=transport):
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        transport.requests.clear()
        spec = {"template": {"spec": {"priorityClassName": "high"}}}
        await user.patch(DEPLOYMENTS, "web", {"spec": spec})
        await settle()
        assert len(await user.replica_sets()) == 2
        assert len(transport.reads()) == 2  # the deployment and its replica set


NOTED: JSON = {"metadata": {"annotations": {"note": "1"}}}
RECREATE: JSON = {"type": "Recreate", "rollingUpdate": None}
ROLLING: JSON = {
    "type": "RollingUpdate",
    "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1},
}


def images(cluster: Cluster) -> Counter[str]:
    """Return the number of pods with each image."""
    return Counter(
        each.obj["spec"]["containers"][0]["image"]
        for each in cluster.server.storage.collection("pods")
    )


@pytest.mark.parametrize(
    ("size", "image", "second"),
    [
        (2, "app:v3", "broken:v2"),
        (7, "app:v3", "broken:v2"),
        *(
            pytest.param(size, image, second, marks=pytest.mark.slow)
            for size in (0, 2, 4, 7)
            for image in ("app:v1", "app:v2", "app:v3")
            for second in ("app:v2", "broken:v2")
        ),
    ],
)
@pytest.mark.parametrize(
    ("before", "after"),
    [(ROLLING, RECREATE), (RECREATE, ROLLING)],
    ids=["to Recreate", "to RollingUpdate"],
)
async def test_strategy_size_and_template_may_change_together(
    cluster: Cluster,
    user: User,
    size: int,
    image: str,
    second: str,
    before: JSON,
    after: JSON,
) -> None:
    """Also in the middle of a rollout; upstream then may stop for ever."""
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json(replicas=4, strategy=before))
        await settle()
        await user.set_image(second)
        await settle(60)
        containers = [{"name": "c", "image": image}]
        spec = {
            "replicas": size,
            "strategy": after,
            "template": {"spec": {"containers": containers}},
        }
        await user.patch(DEPLOYMENTS, "web", {"spec": spec})
        await settle(180)
        assert images(cluster) == Counter({image: size} if size else {})
        sizes = Counter(
            each.spec.replicas for each in (await user.replica_sets()).values()
        )
        del sizes[0]
        assert sizes == Counter([size] if size else [])
        subject = await user.deployment()
        status = subject.status
        assert (status.observed_generation, status.replicas) == (
            subject.metadata.generation,
            size,
        )
        assert (status.updated_replicas, status.available_replicas) == (size, size)
        assert await user.conditions() == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }


@pytest.mark.parametrize("size", [2, 6])
async def test_recreate_mixes_nothing(cluster: Cluster, user: User, size: int) -> None:
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json(replicas=4, strategy=ROLLING))
        await settle()
        await user.set_image("broken:v2")
        await settle(60)
        assert len(images(cluster)) == 2
        await user.patch(
            DEPLOYMENTS, "web", {"spec": {"replicas": size, "strategy": RECREATE}}
        )
        await user.set_image("app:v3")
        seen = []
        for _ in range(240):
            await settle(0.5)
            seen.append(frozenset(images(cluster)))
        begun = next(i for i, each in enumerate(seen) if "app:v3" in each)
        assert set(seen[begun:]) == {frozenset(["app:v3"])}
        assert images(cluster) == Counter({"app:v3": size})
