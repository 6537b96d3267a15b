"""A first template that is faulty, and is then repaired."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import WORKLOADS, Cluster, make_config
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.builders import daemon_set_json, deployment_json, template
from tests.controllers.responses import is_creation, refusing
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime

CONTROLLERS = (*WORKLOADS, "daemonset-controller", "statefulset-controller")
BROKEN, GOOD = "broken:v1", "app:v2"
READY = ("Ready", "True")


def body_of(resource: Resource[Any], **spec: Any) -> JSON:
    """Return an object of the kind with three pods, or one on each node."""
    if resource is DAEMON_SETS:
        return daemon_set_json("web", **spec)
    if resource is STATEFUL_SETS:
        return stateful_set_json(replicas=3, **spec)
    return deployment_json(replicas=3, **spec)


async def use(user: User, resource: Resource[Any], image: str) -> None:
    containers = [{"name": "c", "image": image}]
    spec = {"template": {"spec": {"containers": containers}}}
    await user.patch(resource, "web", {"spec": spec})


def images(cluster: Cluster) -> list[str]:
    """Return the images of all pods, those of pods that are not ready with a mark."""
    return sorted(
        each.obj["spec"]["containers"][0]["image"] + ("" if is_ready(each.obj) else "?")
        for each in cluster.server.storage.collection("pods")
    )


def is_ready(pod: JSON) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any((each["type"], each["status"]) == READY for each in conditions)


def rolling(**bounds: Any) -> JSON:
    return {"type": "RollingUpdate", "rollingUpdate": bounds}


CASES = [
    (DEPLOYMENTS, {"strategy": rolling(maxSurge=1, maxUnavailable=0)}, 60),
    (DEPLOYMENTS, {"strategy": rolling(maxSurge=0, maxUnavailable=1)}, 60),
    (DEPLOYMENTS, {"strategy": {"type": "Recreate"}}, 60),
    (DAEMON_SETS, {"updateStrategy": rolling(maxSurge=0, maxUnavailable=1)}, 60),
    (DAEMON_SETS, {"updateStrategy": rolling(maxSurge=1, maxUnavailable=0)}, 60),
    (STATEFUL_SETS, {"podManagementPolicy": "OrderedReady"}, 660),
    (STATEFUL_SETS, {"podManagementPolicy": "Parallel"}, 120),
]
NAMES = [
    "deployment that may surge",
    "deployment",
    "deployment that is recreated",
    "daemon set",
    "daemon set that may surge",
    "stateful set",
    "parallel stateful set",
]


@pytest.mark.parametrize(("resource", "spec", "seconds"), CASES, ids=NAMES)
async def test_a_faulty_first_template_is_replaced_once_it_is_repaired(
    cluster: Cluster, user: User, resource: Resource[Any], spec: JSON, seconds: int
) -> None:
    """None of its pods was ever ready, so no bound of a rollout keeps them."""
    config = make_config(controllers=CONTROLLERS)
    async with cluster.nodes(), cluster.manager(config):
        whole = {"template": template(BROKEN, app="web"), **spec}
        await user.create(resource, body_of(resource, **whole))
        await settle(120)
        first = images(cluster)
        assert set(first) == {f"{BROKEN}?"}
        await use(user, resource, GOOD)
        await settle(seconds)
        assert images(cluster) == [GOOD] * 3


@pytest.mark.slow
@pytest.mark.parametrize(("resource", "spec", "seconds"), CASES, ids=NAMES)
async def test_a_first_template_that_is_refused_makes_way_for_another(
    cluster: Cluster, user: User, resource: Resource[Any], spec: JSON, seconds: int
) -> None:
    """A policy refuses all pods of the first template."""
    transport = refusing(cluster, lambda _: False, 403, "Forbidden")
    answer = refusing(cluster, is_creation, 403, "Forbidden").refuse

    def refuse(request: Request) -> Response | None:
        return answer(request) if BROKEN.encode() in (request.body or b"") else None

    transport.refuse = refuse
    config = make_config(controllers=CONTROLLERS)
    async with cluster.nodes(), cluster.manager(config, transport):
        whole = {"template": template(BROKEN, app="web"), **spec}
        await user.create(resource, body_of(resource, **whole))
        await settle(120)
        assert images(cluster) == []
        await use(user, resource, GOOD)
        await settle(seconds)
        assert images(cluster) == [GOOD] * 3
