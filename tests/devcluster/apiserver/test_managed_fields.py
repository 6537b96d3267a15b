"""Each write stores the managers of the fields, as on a real cluster."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry import find_kinds
from tests.clusters import Cluster
from tests.devcluster.apiserver.test_apply import WEB, apply, managers, send
from tests.devcluster.rows import parsed, rows

pytestmark = pytest.mark.looptime

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

UNDECLARED = (
    "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): "
    ".spec.x: field not declared in schema"
)
UNPRINTABLE = (
    'fieldManager: Invalid value: "a\\u0007": invalid character U+0007 (at position 1)'
)


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


async def test_fields_that_the_server_adds_have_no_owner(cluster: Cluster) -> None:
    service = {
        "metadata": {"name": "s"},
        "spec": {"selector": LABELS, "ports": [{"port": 80}]},
    }
    path = "/api/v1/namespaces/default/services"
    _, found = await send(cluster, "POST", path, service)
    assert found["spec"]["clusterIP"]
    ((fields),) = managers(found).values()
    assert list(fields["f:spec"]) == [
        "f:internalTrafficPolicy",
        "f:ports",
        "f:selector",
        "f:sessionAffinity",
        "f:type",
    ]


async def test_an_update_takes_the_fields_that_it_changes(cluster: Cluster) -> None:
    await create(cluster, a="1", b="1", c="1")
    body = {"data": {"a": "2", "b": None, "c": "1", "d": "2"}}
    metadata = await change(cluster, "other", body)
    assert managers({"metadata": metadata}) == {
        ("kubectl", "Update"): {"f:data": {".": {}, "f:c": {}}},
        ("other", "Update"): {"f:data": {"f:a": {}, "f:d": {}}},
    }
    version = metadata["resourceVersion"]
    await asyncio.sleep(60)
    again = await change(cluster, "third", {"data": {"a": "2"}})
    assert (again["resourceVersion"], again) == (version, metadata)


async def test_times_tell_when_a_manager_changed_something_last(
    cluster: Cluster,
) -> None:
    """A manager that loses a field keeps the time; entries are sorted by time."""
    await create(cluster, a="1", b="1")
    await asyncio.sleep(60)
    await change(cluster, "b", {"data": {"a": "2"}})
    await asyncio.sleep(60)
    metadata = await change(cluster, "a", {"data": {"c": "1"}})
    assert [(e["manager"], e["time"][11:]) for e in metadata["managedFields"]] == [
        ("kubectl", "00:00:00Z"),
        ("b", "00:01:00Z"),
        ("a", "00:02:00Z"),
    ]


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


@rows("given", "names")
async def test_a_request_may_change_the_managers(
    cluster: Cluster, given: Any, names: list[str]
) -> None:
    """An empty list, or an empty entry, removes all; invalid entries are ignored."""
    await create(cluster, a="1", b="1")
    body: JSON = {"data": {"a": "2"}}
    if given is not None:
        body["metadata"] = {"managedFields": given}
    metadata = await change(cluster, "me", body)
    found = [each["manager"] for each in metadata.get("managedFields", [])]
    assert found == names


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


async def test_a_scale_is_applied_to_the_replicas(cluster: Cluster) -> None:
    body = {"metadata": {"name": "web"}, "spec": SPEC}
    await send(cluster, "POST", DEPLOYMENTS, body)
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 3}}
    kind, query = "apply-patch+yaml", {"fieldManager": "hpa"}
    path = f"{WEB}/scale"
    status, refusal = await send(cluster, "PATCH", path, scale, kind, **query)
    assert status == 409
    assert refusal["message"] == (
        'Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: '
        ".spec.replicas"
    )
    query["force"] = "true"
    status, found = await send(cluster, "PATCH", path, scale, kind, **query)
    assert (status, found["spec"]) == (200, {"replicas": 3})
    _, web = await send(cluster, "GET", WEB, {})
    assert managers(web)["hpa", "Apply"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in managers(web)["kubectl", "Update"]["f:spec"]
    wrong = {**scale, "spec": {"size": 1}}
    status, refusal = await send(cluster, "PATCH", path, wrong, kind, **query)
    assert status == 500
    assert refusal["message"] == (
        "failed to create typed patch object (/; autoscaling/v1, Kind=Scale): "
        ".spec.size: field not declared in schema"
    )


@pytest.mark.parametrize(
    ("config", "code", "message"),
    [
        ({"kind": "Pod"}, 400, "invalid object type: apps/v1, Kind=Pod"),
        ({"apiVersion": None}, 400, "invalid object type: /, Kind=Deployment"),
        (
            {"metadata": {"name": "web", "namespace": "default"}, "spec": {"x": 1}},
            500,
            UNDECLARED,
        ),
    ],
)
async def test_a_wrong_configuration_is_refused(
    cluster: Cluster, config: JSON, code: int, message: str
) -> None:
    for validation in ("Ignore", "Strict"):
        status, refusal = await apply(cluster, WEB, config, fieldValidation=validation)
        assert (status, refusal["message"]) == (code, message)


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("x" * 129, "fieldManager: Too long: may not be more than 128 bytes"),
        ("a\u0007", UNPRINTABLE),
    ],
)
async def test_a_name_that_no_manager_can_have_is_refused(
    cluster: Cluster, name: str, detail: str
) -> None:
    body = {"metadata": {"name": "m"}}
    for method, path, options in (
        ("POST", MAPS, "CreateOptions"),
        ("PUT", f"{MAPS}/m", "UpdateOptions"),
        ("PATCH", f"{MAPS}/m", "PatchOptions"),
    ):
        kind = "merge-patch+json" if method == "PATCH" else ""
        status, refusal = await send(
            cluster, method, path, body, kind, fieldManager=name
        )
        assert status == 422
        assert refusal["message"] == (f'{options}.meta.k8s.io "" is invalid: {detail}')
        if method == "POST":
            await create(cluster)


@rows("method", "kind", "body")
async def test_managers_that_are_removed_stay_away(
    cluster: Cluster, method: str, kind: str, body: Any
) -> None:
    """Until the next apply: then the fields belong to before-first-apply."""
    await create(cluster, a="1")
    path = f"{MAPS}/m"
    if method == "PUT":
        body["data"] = {"a": "1"}
    status, found = await send(cluster, method, path, body, kind)
    assert (status, "managedFields" in found["metadata"]) == (200, False)
    metadata = await change(cluster, "me", {"data": {"b": "1"}})
    assert "managedFields" not in metadata
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}
    kind, query = "apply-patch+yaml", {"fieldManager": "me"}
    _, found = await send(cluster, "PATCH", path, config, kind, **query)
    assert managers(found) == {
        ("me", "Apply"): {"f:data": {"f:a": {}}},
        ("before-first-apply", "Update"): {"f:data": {".": {}, "f:a": {}, "f:b": {}}},
    }


async def test_a_repeated_apply_changes_nothing(cluster: Cluster) -> None:
    """Also if the server writes it in another way; an empty map is owned."""
    limits = {"limits": {"cpu": "1000m"}}
    container = {"name": "c", "image": "app:v1", "resources": limits}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    config = {
        "metadata": {"annotations": {}, "labels": LABELS},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template},
    }
    status, first = await apply(cluster, WEB, config)
    (fields,) = managers(first).values()
    assert (status, fields["f:metadata"]) == (
        201,
        {"f:annotations": {}, "f:labels": {"f:app": {}}},
    )
    await asyncio.sleep(60)
    assert await apply(cluster, WEB, config) == (200, first)


async def test_a_manager_without_fields_is_not_named(cluster: Cluster) -> None:
    path, kind = f"{MAPS}/m", "apply-patch+yaml"
    config: JSON = {"apiVersion": "v1", "kind": "ConfigMap"}
    data = {**config, "data": {"a": "1"}}
    await send(cluster, "PATCH", path, data, kind, fieldManager="me")
    _, found = await send(cluster, "PATCH", path, config, kind, fieldManager="me")
    assert "managedFields" not in found["metadata"]
    assert "data" not in found
    entry = {
        "manager": "old",
        "operation": "Update",
        "apiVersion": "v1beta9",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:z": {}}},
    }
    await send(cluster, "PATCH", path, data, kind, fieldManager="me")
    body = {"metadata": {"managedFields": [entry]}, "data": {"b": "1"}}
    metadata = await change(cluster, "new", body)
    assert [each["manager"] for each in metadata["managedFields"]] == ["new"]


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
