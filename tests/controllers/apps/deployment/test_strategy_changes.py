"""A deployment whose strategy and size change in one update."""

from collections import Counter

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.controllers.builders import deployment_json
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime

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
async def test_pods_of_two_templates_never_run_after_a_change_to_recreate(
    cluster: Cluster, user: User, size: int
) -> None:
    """The size changes in the same update, in the middle of a rollout."""
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
