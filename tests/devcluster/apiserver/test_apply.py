"""Server-side apply sets, removes and shares fields as on a real cluster."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import TOKEN, Cluster
from tests.devcluster.rows import parsed

pytestmark = pytest.mark.looptime

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
WEB = "/apis/apps/v1/namespaces/default/deployments/web"
KINDS: JSON = {
    "clusterroles": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
    },
    "deployments": {"apiVersion": "apps/v1", "kind": "Deployment"},
}
GET_PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
ALL_NODES = {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes"]}


async def send(
    cluster: Cluster, method: str, path: str, body: JSON, kind: str = "", **query: str
) -> tuple[int, JSON]:
    """Send a request; return the answer's status and body."""
    answer = await cluster.server.handle(
        Request(
            method,
            path,
            query=tuple(query.items()),
            headers={
                "authorization": f"Bearer {TOKEN}",
                "content-type": f"application/{kind or 'json'}",
                "user-agent": "kubectl/v1.36.2 (linux/amd64)",
            },
            body=json.dumps(body).encode(),
        )
    )
    assert isinstance(answer, Response)
    return answer.status, json.loads(answer.body)


async def apply(
    cluster: Cluster, path: str, body: JSON, manager: str = "a", **query: str
) -> tuple[int, JSON]:
    """Apply a configuration in the name of a manager of fields."""
    kind = "apply-patch+yaml"
    body = {**KINDS[path.split("/")[-2 if "status" not in path else -3]], **body}
    return await send(cluster, "PATCH", path, body, kind, fieldManager=manager, **query)


def managers(obj: JSON) -> dict[tuple[str, str], JSON]:
    return {
        (each["manager"], each["operation"]): each["fieldsV1"]
        for each in obj["metadata"]["managedFields"]
    }


async def test_an_object_that_is_absent_is_created(cluster: Cluster) -> None:
    config = {"rules": [GET_PODS]}
    status, role = await apply(cluster, f"{ROLES}/r", config)
    assert (status, role["rules"]) == (201, [GET_PODS])
    assert managers(role) == {("a", "Apply"): {"f:rules": {}}}
    assert await apply(cluster, f"{ROLES}/r", config) == (200, role)


async def test_applied_fields_go_with_the_configuration(cluster: Cluster) -> None:
    await send(
        cluster, "POST", ROLES, {"metadata": {"name": "r", "labels": {"l": "1"}}}
    )
    await apply(cluster, f"{ROLES}/r", {"rules": [GET_PODS]}, force="true")
    _, role = await apply(cluster, f"{ROLES}/r", {"metadata": {}}, force="true")
    assert role["rules"] is None
    assert managers(role) == {
        ("kubectl", "Update"): {"f:metadata": {"f:labels": {".": {}, "f:l": {}}}}
    }
    await apply(cluster, f"{ROLES}/r", {"rules": [GET_PODS]}, force="true")
    by_hand = {"rules": [ALL_NODES]}
    await send(cluster, "PATCH", f"{ROLES}/r", by_hand, "merge-patch+json")
    _, role = await apply(cluster, f"{ROLES}/r", {"metadata": {}}, force="true")
    assert role["rules"] == [ALL_NODES]
    labels: JSON = {"f:labels": {".": {}, "f:l": {}}}
    assert managers(role)["kubectl", "Update"] == {"f:metadata": labels, "f:rules": {}}


async def test_a_value_of_another_manager_is_taken_only_by_force(
    cluster: Cluster,
) -> None:
    await apply(cluster, f"{ROLES}/r", {"rules": [GET_PODS]})
    status, refusal = await apply(cluster, f"{ROLES}/r", {"rules": [ALL_NODES]}, "b")
    message = 'conflict with "a"'
    cause = {"reason": "FieldManagerConflict", "message": message, "field": ".rules"}
    assert (status, refusal["reason"], refusal["message"]) == (
        409,
        "Conflict",
        f"Apply failed with 1 conflict: {message}: .rules",
    )
    assert refusal["details"] == {"causes": [cause]}
    forced = {"rules": [ALL_NODES]}
    _, role = await apply(cluster, f"{ROLES}/r", forced, "b", force="true")
    assert (role["rules"], managers(role)) == (
        [ALL_NODES],
        {("b", "Apply"): {"f:rules": {}}},
    )


async def test_conflicts_are_listed_by_their_managers(cluster: Cluster) -> None:
    labels = {"app": "web"}
    containers = [{"name": "c", "image": "app:v1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": labels}, "template": template, "replicas": 1}
    config = {"metadata": {"labels": {"a": "1"}}, "spec": spec}
    await apply(cluster, WEB, config)
    scale = {"spec": {"replicas": 3}}
    _, scaled = await send(
        cluster, "PATCH", f"{WEB}/scale", scale, "merge-patch+json", fieldManager="b"
    )
    assert scaled["spec"] == {"replicas": 3}
    by_scale = '"b" with subresource "scale" using apps/v1'
    status, refusal = await apply(cluster, WEB, config)
    assert (status, refusal["message"]) == (
        409,
        f"Apply failed with 1 conflict: conflict with {by_scale}: .spec.replicas",
    )
    other = {"metadata": {"labels": {"a": "2"}}, "spec": {"replicas": 2}}
    status, refusal = await apply(cluster, WEB, other, "c")
    assert status == 409
    assert refusal["message"] == (
        "Apply failed with 2 conflicts: "
        'conflicts with "a":\n'
        "- .metadata.labels.a\n"
        f"conflicts with {by_scale}:\n"
        "- .spec.replicas"
    )
    assert [each["field"] for each in refusal["details"]["causes"]] == [
        ".metadata.labels.a",
        ".spec.replicas",
    ]


async def test_items_of_a_list_are_applied_by_their_key(cluster: Cluster) -> None:
    """Two managers own one container each, and one finalizer each."""
    one, two = ({"name": each, "image": f"app:{each}"} for each in ("one", "two"))
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [one]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    mine = {"metadata": {"finalizers": ["a.io/a"]}, "spec": spec}
    await apply(cluster, WEB, mine)
    other = {
        "metadata": {"finalizers": ["b.io/b"]},
        "spec": {"template": {"spec": {"containers": [two]}}},
    }
    _, web = await apply(cluster, WEB, other, "b")
    names = [each["name"] for each in web["spec"]["template"]["spec"]["containers"]]
    assert sorted(names) == ["one", "two"]
    assert managers(web)["b", "Apply"] == parsed("""
        f:metadata: {'f:finalizers': {'v:"b.io/b"': {}}}
        f:spec:
          f:template:
            f:spec:
              f:containers:
                {'k:{"name":"two"}': {.: {}, 'f:image': {}, 'f:name': {}}}""")
    _, web = await apply(cluster, WEB, {"metadata": {}}, "b")
    containers = web["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in containers] == ["one"]
    assert web["metadata"]["finalizers"] == ["a.io/a"]


async def test_an_object_that_is_gone_is_not_created_again(cluster: Cluster) -> None:
    """If the configuration names a uid; a namesake is not changed, either."""
    config = {"metadata": {"uid": "0-1-2"}, "rules": [GET_PODS]}
    status, refusal = await apply(cluster, f"{ROLES}/r", config)
    assert (status, refusal["reason"]) == (409, "Conflict")
    await apply(cluster, f"{ROLES}/r", {"rules": [ALL_NODES]})
    status, refusal = await apply(cluster, f"{ROLES}/r", config, force="true")
    assert (status, refusal["reason"]) == (422, "Invalid")
    (field,) = {each["field"] for each in refusal["details"]["causes"]}
    assert field == "metadata.uid"


async def test_an_item_stays_while_a_manager_owns_a_part_of_it(
    cluster: Cluster,
) -> None:
    labels = {"app": "web"}
    container = {"name": "c", "image": "app:v1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    await apply(cluster, WEB, {"spec": spec})
    more = {"name": "c", "command": ["run"]}
    body = {"spec": {"template": {"spec": {"containers": [more]}}}}
    await apply(cluster, WEB, body, "b")
    _, web = await apply(cluster, WEB, {"metadata": {}}, "b")
    (found,) = web["spec"]["template"]["spec"]["containers"]
    assert {"image": "app:v1"}.items() <= found.items()
    assert "command" not in found


async def test_the_status_is_applied_through_its_subresource(cluster: Cluster) -> None:
    labels = {"app": "web"}
    containers = [{"name": "c", "image": "app:v1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    await apply(cluster, WEB, {"spec": spec, "status": {"replicas": 7}})
    status = {"replicas": 2, "conditions": [{"type": "Mine", "status": "True"}]}
    metadata = {"labels": {"no": "1"}, "annotations": {"yes": "1"}}
    body = {"metadata": metadata, "spec": {"replicas": 9}, "status": status}
    _, web = await apply(cluster, f"{WEB}/status", body, "b")
    assert (web["spec"]["replicas"], web["status"]["replicas"]) == (1, 2)
    assert "labels" not in web["metadata"]
    assert managers(web)["b", "Apply"] == parsed("""
        f:metadata: {'f:annotations': {'f:yes': {}}}
        f:status:
          f:conditions: {'k:{"type":"Mine"}': {.: {}, 'f:status': {}, 'f:type': {}}}
          f:replicas: {}""")
    code, _ = await apply(cluster, f"{ROLES}/absent/status", {"status": {}})
    assert code in (404, 501)


async def test_an_apply_names_its_manager(cluster: Cluster) -> None:
    """As on a real server; it does not set the managers itself."""
    status, refusal = await apply(cluster, f"{ROLES}/r", {}, "")
    assert status == 422
    assert refusal["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: '
        "is required for apply patch"
    )
    config = {"metadata": {"managedFields": [{"manager": "x"}]}}
    status, refusal = await apply(cluster, f"{ROLES}/r", config)
    assert (status, refusal["message"]) == (400, "metadata.managedFields must be nil")


async def test_an_object_to_which_nothing_is_applied_stays_as_it_is(
    cluster: Cluster,
) -> None:
    """Its version, too: so it can be stored again; if it is still the same."""
    _, role = await send(cluster, "POST", ROLES, {"metadata": {"name": "r"}})
    same = {each: role["metadata"][each] for each in ("uid", "resourceVersion")}
    assert await apply(cluster, f"{ROLES}/r", {"metadata": same}) == (200, role)
    labels = {"metadata": {"labels": {"l": "1"}}}
    _, changed = await apply(cluster, f"{ROLES}/r", labels)
    status, _ = await apply(cluster, f"{ROLES}/r", {"metadata": same}, "b")
    assert status == 409
    now = {"resourceVersion": changed["metadata"]["resourceVersion"]}
    again = await apply(cluster, f"{ROLES}/r", {"metadata": now}, "b")
    assert again == (200, changed)
