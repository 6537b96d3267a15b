"""Each write stores the managers of the fields, as on a real cluster."""

import asyncio
import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.registry import find_kinds
from tests.clusters import TOKEN, Cluster
from tests.devcluster.rows import parsed

pytestmark = pytest.mark.looptime

WEB = "/apis/apps/v1/namespaces/default/deployments/web"
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LABELS = {"app": "web"}
SPEC: JSON = {
    "selector": {"matchLabels": LABELS},
    "template": {
        "metadata": {"labels": LABELS},
        "spec": {
            "containers": [
                {"name": "c", "image": "app:v1", "ports": [{"containerPort": 80}]}
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    },
}
LAST = "kubectl.kubernetes.io/last-applied-configuration"


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
    body = {"apiVersion": "apps/v1", "kind": "Deployment", **body}
    return await send(cluster, "PATCH", path, body, kind, fieldManager=manager, **query)


def managers(obj: JSON) -> dict[tuple[str, str], JSON]:
    return {
        (each["manager"], each["operation"]): each["fieldsV1"]
        for each in obj["metadata"]["managedFields"]
    }


async def create(cluster: Cluster, **data: str) -> JSON:
    body = {"metadata": {"name": "m"}, "data": data}
    status, found = await send(cluster, "POST", MAPS, body)
    assert status == 201
    return found


async def change(cluster: Cluster, manager: str, body: JSON) -> JSON:
    """Change the config map by a merge patch; return its metadata."""
    path, kind = f"{MAPS}/m", "merge-patch+json"
    status, found = await send(cluster, "PATCH", path, body, kind, fieldManager=manager)
    assert status == 200
    metadata: JSON = found["metadata"]
    return metadata


async def test_a_new_deployment_is_its_creators(cluster: Cluster) -> None:
    """With its defaults; structs of Go do not belong to the set themselves."""
    body = {"metadata": {"name": "web", "labels": LABELS}, "spec": SPEC}
    status, found = await send(cluster, "POST", DEPLOYMENTS, body)
    assert status == 201
    (entry,) = found["metadata"]["managedFields"]
    fields = entry.pop("fieldsV1")
    assert entry == {
        "manager": "kubectl",
        "operation": "Update",
        "apiVersion": "apps/v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
    }
    container: JSON = parsed("""
        .: {}
        f:image: {}
        f:imagePullPolicy: {}
        f:name: {}
        f:ports:
          .: {}
          k:{"containerPort":80,"protocol":"TCP"}:
            {.: {}, 'f:containerPort': {}, 'f:protocol': {}}
        f:resources: {}
        f:terminationMessagePath: {}
        f:terminationMessagePolicy: {}""")
    volume: JSON = {".": {}, "f:emptyDir": {}, "f:name": {}}
    assert fields == {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:progressDeadlineSeconds": {},
            "f:replicas": {},
            "f:revisionHistoryLimit": {},
            "f:selector": {},
            "f:strategy": {
                "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}},
                "f:type": {},
            },
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:containers": {'k:{"name":"c"}': container},
                    "f:dnsPolicy": {},
                    "f:restartPolicy": {},
                    "f:schedulerName": {},
                    "f:securityContext": {},
                    "f:terminationGracePeriodSeconds": {},
                    "f:volumes": {".": {}, 'k:{"name":"v"}': volume},
                },
            },
        },
    }


async def test_the_oldest_of_many_managers_become_one(cluster: Cluster) -> None:
    await create(cluster, a="1")
    for number in range(11):
        await asyncio.sleep(1)
        body = {"data": {f"k{number}": "1"}}
        metadata = await change(cluster, f"m{number}", body)
    found = managers({"metadata": metadata})
    assert list(found) == [
        ("ancient-changes", "Update"),
        *((f"m{number}", "Update") for number in range(2, 11)),
    ]
    fields: JSON = {".": {}, "f:a": {}, "f:k0": {}, "f:k1": {}}
    assert found["ancient-changes", "Update"] == {"f:data": fields}


async def test_kubectl_continues_with_fields_of_client_side_apply(
    cluster: Cluster,
) -> None:
    config: JSON = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": SPEC}
    config["metadata"] = {"name": "web", "annotations": {}}
    text = str(config).replace("'", '"')
    body = {**config, "metadata": {"name": "web", "annotations": {LAST: text}}}
    client = "kubectl-client-side-apply"
    await send(cluster, "POST", DEPLOYMENTS, body, fieldManager=client)
    newer = {**config, "spec": {**SPEC, "replicas": 2, "paused": True}}
    status, refusal = await apply(cluster, WEB, newer, "kubectl")
    assert status == 409
    assert refusal["message"] == (
        f'Apply failed with 1 conflict: conflict with "{client}" using apps/v1: '
        ".spec.replicas"
    )
    template = {**SPEC["template"], "spec": {**SPEC["template"]["spec"]}}
    template["spec"]["terminationGracePeriodSeconds"] = 30
    newer = {**config, "spec": {**SPEC, "template": template, "paused": True}}
    status, web = await apply(cluster, WEB, newer, "kubectl")
    assert (status, web["spec"]["paused"]) == (200, True)
    assert '"paused":true' in web["metadata"]["annotations"][LAST]
    assert [name for name, _ in managers(web)] == ["kubectl", client]


async def test_parts_of_the_cluster_own_fields_they_write(cluster: Cluster) -> None:
    await create(cluster, a="1")
    kind = next(each for each in find_kinds() if each.kind == "ConfigMap")
    objects = cluster.server.objects.in_name_of("kubelet")
    old = objects.find(kind, "default", "m").obj
    new = {**old, "data": {"a": "1", "b": "2"}}
    found = objects.update(kind, "default", "m", new).obj
    assert managers(found)["kubelet", "Update"] == {"f:data": {"f:b": {}}}
    other = objects.create(kind, "default", {"metadata": {"name": "o"}})
    assert "managedFields" not in other.obj["metadata"]
