"""A deployment goes back to an earlier template."""

import pytest

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
)
from tests.clusters import Cluster
from tests.controllers.builders import deployment_json, template
from tests.controllers.user import REVISION, User, settle

pytestmark = pytest.mark.looptime


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


async def test_an_undo_without_progress_misses_its_deadline(
    cluster: Cluster, user: User
) -> None:
    """Even if its replica set is not new (upstream never reports it)."""
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
async def test_the_rollback_annotation_restores_a_revision(
    cluster: Cluster, user: User, asked: str, image: str
) -> None:
    """With a revision number, or with 0 for the last; annotations are restored, too."""
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
    """Even if revisionHistoryLimit is lower."""
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
async def test_a_rollback_that_is_not_possible_is_explained(
    cluster: Cluster, user: User, asked: str, reason: str, message: str
) -> None:
    """The annotation is removed, the template stays."""
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


@pytest.mark.parametrize("revision", ["-1", "+7"])
async def test_a_rollback_to_a_revision_that_cannot_be_is_refused(
    cluster: Cluster, user: User, revision: str
) -> None:
    """The annotation is removed; one that is no number at all is ignored."""
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json(replicas=1))
        await settle()
        for text in ("first", revision):
            annotations = {"deprecated.deployment.rollback.to": text}
            patch = {"metadata": {"annotations": annotations}}
            await user.patch(DEPLOYMENTS, "web", patch)
            await settle()
            found = (await user.deployment()).metadata.annotations or {}
            stays = found.get("deprecated.deployment.rollback.to")
            assert stays == (text if text == "first" else None)
        (event,) = await user.events("DeploymentRollbackRevisionNotFound")
        assert event.message == "Unable to find the revision to rollback to."
