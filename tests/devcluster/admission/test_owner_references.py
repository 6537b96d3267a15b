"""A user who sets the owner of an object needs rights on both."""

import json

import pytest
import pytest_asyncio

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.security import User
from tests.clusters import Cluster
from tests.devcluster.admission.requests import decoded
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

MAPS = "/api/v1/namespaces/default/configmaps"
OWNER: JSON = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "1"}
NO_DELETION = "cannot set an ownerRef on a resource you can't delete: , <nil>"


@pytest_asyncio.fixture
async def guarded() -> Cluster:
    """Return a cluster whose user jane has no rights but to config maps."""
    cluster = Cluster(
        rbac=True, admission_plugins={"OwnerReferencesPermissionEnforcement"}
    )
    cluster.server.tokens.add("jane", User("jane", groups=("system:authenticated",)))
    return cluster


def grant(cluster: Cluster, *rules: JSON) -> None:
    api = "rbac.authorization.k8s.io/v1"
    cluster.add("Role", "jane", api, rules=list(rules))
    cluster.add(
        "RoleBinding",
        "jane",
        api,
        roleRef={"apiGroup": api.partition("/")[0], "kind": "Role", "name": "jane"},
        subjects=[{"kind": "User", "name": "jane", "apiGroup": api.partition("/")[0]}],
    )


async def send(cluster: Cluster, method: str, path: str, owners: list[JSON]) -> JSON:
    body = {"metadata": {"name": "c", "ownerReferences": owners}}
    answer = await call(
        cluster, method, path, json.dumps(body).encode(), authorization="Bearer jane"
    )
    return decoded(answer)


@rows("more", "owner", "problem")
async def test_an_owner_that_waits_needs_the_right_to_its_finalizers(
    guarded: Cluster, more: list[JSON], owner: JSON, problem: str
) -> None:
    maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    grant(guarded, maps, *more)
    answer = await send(guarded, "POST", MAPS, [owner])
    said = f'configmaps "c" is forbidden: {problem}' if problem else ""
    assert answer.get("message", "") == said


async def test_an_update_of_owners_needs_the_right_to_delete(guarded: Cluster) -> None:
    verbs = ["create", "update"]
    grant(guarded, {"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs})
    await send(guarded, "POST", MAPS, [OWNER])
    same = await send(guarded, "PUT", f"{MAPS}/c", [OWNER])
    assert same["metadata"]["ownerReferences"] == [OWNER]
    answer = await send(guarded, "PUT", f"{MAPS}/c", [])
    assert answer["message"] == f'configmaps "c" is forbidden: {NO_DELETION}'
