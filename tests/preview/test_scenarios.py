"""A preview beside a manager of this build finds no divergence."""

from controller_manager.api.apps.v1 import DEPLOYMENTS
from tests.clusters import Cluster
from tests.preview.shadow import settle, shadowed


def _deployment(name: str, replicas: int, image: str = "nginx:1") -> dict:
    return {
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        }
    }


async def test_a_rollout_is_confirmed() -> None:
    cluster = Cluster()
    async with cluster.nodes(), shadowed(cluster) as shadow:
        cluster.add("Deployment", "web", "apps/v1", **_deployment("web", 3))
        await settle(60)
        patch = {"spec": {"replicas": 5}}
        await cluster.client.patch(DEPLOYMENTS, "default", "web", patch)
        await settle(60)
        await cluster.client.patch(
            DEPLOYMENTS,
            "default",
            "web",
            {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}},
        )
        await settle(120)
        patch = {"spec": {"replicas": 2}}
        await cluster.client.patch(DEPLOYMENTS, "default", "web", patch)
        await settle(120)
        print(shadow.report)
        print(shadow.log.getvalue()[-3000:])
        assert shadow.report.divergences == []
        assert shadow.report.pending == []
        assert shadow.report.confirmed_writes > 10
