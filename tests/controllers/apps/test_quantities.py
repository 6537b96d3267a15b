"""A quantity that is written in another way starts no rollout."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICASETS,
    STATEFUL_SETS,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource
from tests.clusters import WORKLOADS, Cluster, make_config
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.builders import daemon_set_json, deployment_json, template
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime

CONTROLLERS = (*WORKLOADS, "statefulset-controller", "daemonset-controller")


def limited(memory: str, app: str) -> JSON:
    made = template(app=app)
    made["spec"]["containers"][0]["resources"] = {"limits": {"memory": memory}}
    return made


@pytest.mark.parametrize(
    ("resource", "obj", "history"),
    [
        (DEPLOYMENTS, deployment_json(), REPLICASETS),
        (STATEFUL_SETS, stateful_set_json(), CONTROLLER_REVISIONS),
        (DAEMON_SETS, daemon_set_json("web"), CONTROLLER_REVISIONS),
    ],
    ids=["deployment", "stateful set", "daemon set"],
)
async def test_a_quantity_that_is_written_in_another_way_starts_no_rollout(
    cluster: Cluster,
    user: User,
    resource: Resource[Any],
    obj: JSON,
    history: Resource[Any],
) -> None:
    """1Gi is 1073741824; another amount is followed."""
    obj["spec"]["template"] = limited("1Gi", "web")
    async with cluster.nodes(), cluster.manager(make_config(controllers=CONTROLLERS)):
        await user.create(resource, obj)
        await settle()
        pods = {each.metadata.uid for each in await user.pods()}
        assert len(pods) == 3
        for memory, templates in (("1073741824", 1), ("1.5Gi", 2), ("1610612736", 2)):
            await user.patch(
                resource, "web", {"spec": {"template": limited(memory, "web")}}
            )
            await settle(120)
            stored = (await user.client.list_page(history)).items
            assert len(stored) == templates, memory
            same = pods == {each.metadata.uid for each in await user.pods()}
            assert same is (templates == 1)


async def test_another_format_is_no_template(cluster: Cluster, user: User) -> None:
    """So it is when this program replaces a manager that wrote the history."""
    config = make_config(controllers=CONTROLLERS)
    made = deployment_json()
    made["spec"]["template"] = limited("1Gi", "web")
    async with cluster.nodes():
        async with cluster.manager(config):
            await user.create(DEPLOYMENTS, made)
            await settle()
        changed = {"spec": {"template": limited("1073741824", "web")}}
        await user.patch(DEPLOYMENTS, "web", changed)
        async with cluster.manager(config) as recording:
            await settle()
    assert len(await user.replica_sets()) == 1
    assert [each.path for each in recording.writes if "/pods" in each.path] == []
