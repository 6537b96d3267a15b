"""The daemon writes under upstream's name, a command under its own."""

from operator import itemgetter

import pytest

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.core.v1 import PODS
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.version import COMMAND_USER_AGENT, USER_AGENT, VERSION
from tests.clusters import TOKEN, Cluster, make_config
from tests.controllers.builders import replica_set_json, template
from tests.controllers.user import User, settle


def test_the_user_agent_of_the_daemon_begins_as_upstreams() -> None:
    own = f"controller-manager/v{VERSION}"
    assert f"kube-controller-manager/v1.36.2 {own}" == USER_AGENT


def managers_of(cluster: Cluster, api: str, kind: str) -> list[set[str]]:
    found = cluster.server.catalogue.of(api, kind)
    assert found is not None
    stored = cluster.server.storage.collection(found.resource)
    metadata = sorted((each.obj["metadata"] for each in stored), key=itemgetter("name"))
    return [{entry["manager"] for entry in each["managedFields"]} for each in metadata]


@pytest.mark.looptime
async def test_writes_have_upstreams_field_manager(cluster: Cluster) -> None:
    user = User(cluster)
    async with cluster.manager(make_config(controllers=("replicaset-controller",))):
        await user.create(REPLICASETS, replica_set_json(replicas=1))
        await settle()
    command = InMemoryTransport(cluster.server, TOKEN, COMMAND_USER_AGENT)
    user.client = type(user.client)(command, cluster.clock)
    await user.create(PODS, {"metadata": {"name": "other"}, "spec": template()["spec"]})
    assert managers_of(cluster, "v1", "Pod") == [
        {"controller-manager"},
        {"kube-controller-manager"},
    ]
    assert managers_of(cluster, "apps/v1", "ReplicaSet") == [
        {"kube-controller-manager"}
    ]
