"""Requests for certificates are checked and decided as by a real API server."""

import base64
import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.security import User
from tests.clusters import Cluster
from tests.controllers.certificates.authorities import (
    condition,
    request_for,
    signing_request,
)
from tests.devcluster.requests import call
from tests.devcluster.rows import parsed

pytestmark = pytest.mark.looptime


PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def _send(
    cluster: Cluster, method: str, path: str, body: JSON, kind: str = MERGE
) -> tuple[int, JSON]:
    content_type = kind if method == "PATCH" else "application/json"
    answer = await call(
        cluster, method, path, json.dumps(body).encode(), content_type=content_type
    )
    decoded: JSON = json.loads(answer.body)
    return answer.status, decoded


async def _create(cluster: Cluster, **spec: Any) -> tuple[int, JSON]:
    return await _send(cluster, "POST", PATH, signing_request(**spec))


async def test_the_server_sets_the_user_of_a_request(cluster: Cluster) -> None:
    """Fields of the user are ignored, and a request cannot approve itself."""
    request = signing_request(username="root", groups=["system:masters"], uid="0")
    request["status"] = {"conditions": [condition("Approved")], "certificate": "YQ=="}
    code, stored = await _send(cluster, "POST", PATH, request)
    asked = {
        key: each
        for key, each in stored["spec"].items()
        if key in ("username", "groups", "uid", "extra")
    }
    assert (code, stored["status"]) == (201, {})
    assert asked == {
        "username": "admin",
        "groups": ["system:masters", "system:authenticated"],
    }


async def test_a_request_for_an_administrator_is_refused(cluster: Cluster) -> None:
    code, status = await _create(
        cluster,
        request=request_for("jane", ["system:masters"]),
        signer="kubernetes.io/kube-apiserver-client",
        usages=["client auth"],
    )
    assert code == 403
    assert "system:masters group is not allowed" in status["message"]


async def test_only_the_approval_decides(cluster: Cluster) -> None:
    """It decides once; the times of conditions are the server's."""
    await _create(cluster)
    approved = {"status": {"conditions": [condition("Approved")]}}
    code, status = await _send(cluster, "PATCH", f"{PATH}/a/status", approved)
    assert code == 422
    assert 'may not add a condition of type "Approved"' in status["message"]
    await _send(cluster, "PATCH", f"{PATH}/a", approved)
    code, stored = await _send(cluster, "PATCH", f"{PATH}/a/approval", approved)
    time = stored["metadata"]["creationTimestamp"]
    assert stored["status"] == {
        "conditions": [
            {
                "lastUpdateTime": time,
                "lastTransitionTime": time,
                **condition("Approved"),
            }
        ]
    }
    both = {"status": {"conditions": [condition("Approved"), condition("Denied")]}}
    code, status = await _send(cluster, "PATCH", f"{PATH}/a/approval", both)
    assert (code, "mutually exclusive" in status["message"]) == (422, True)
    none: JSON = {"status": {"conditions": []}}
    code, status = await _send(cluster, "PATCH", f"{PATH}/a/approval", none)
    assert (code, "may not remove a condition" in status["message"]) == (422, True)
    answer = await call(cluster, "GET", PATH, accept=TABLE)
    (row,) = json.loads(answer.body)["rows"]
    assert row["cells"] == [
        "a",
        "0s",
        "kubernetes.io/kube-apiserver-client-kubelet",
        "admin",
        "<none>",
        "Approved",
    ]


async def test_a_certificate_is_checked_and_stays(cluster: Cluster) -> None:
    """It is PEM; the approval does not change it."""
    await _create(cluster)
    text = base64.b64encode(b"no certificate").decode()
    wrong = {"status": {"certificate": text}}
    code, status = await _send(cluster, "PATCH", f"{PATH}/a/status", wrong)
    assert code == 422
    assert "must contain at least one CERTIFICATE PEM block" in status["message"]
    code, stored = await _send(cluster, "PATCH", f"{PATH}/a/approval", wrong)
    assert (code, stored["status"]) == (200, {})


async def test_the_right_to_approve_depends_on_the_signer() -> None:
    cluster = Cluster(rbac=True)
    group = "rbac.authorization.k8s.io"
    rules = parsed("""
        - apiGroups: [certificates.k8s.io]
          resources: [certificatesigningrequests/approval]
          verbs: [patch]
        - apiGroups: [certificates.k8s.io]
          resources: [signers]
          resourceNames: [example.com/*]
          verbs: [approve]""")
    cluster.add("ClusterRole", "approver", f"{group}/v1", rules=rules)
    cluster.add(
        "ClusterRoleBinding",
        "approver",
        f"{group}/v1",
        roleRef={"apiGroup": group, "kind": "ClusterRole", "name": "approver"},
        subjects=[{"apiGroup": group, "kind": "User", "name": "joe"}],
    )
    cluster.server.tokens.add("joe", User("joe"))
    kind = cluster.server.catalogue.find(
        "certificates.k8s.io", "v1", "certificatesigningrequests"
    )
    assert kind is not None
    codes = []
    for name, signer in (("a", "example.com/mine"), ("b", "example.org/other")):
        request = signing_request(name, signer=signer)
        cluster.server.objects.create(kind, "", request)
        body = {"status": {"conditions": [condition("Approved")]}}
        answer = await call(
            cluster,
            "PATCH",
            f"{PATH}/{name}/approval",
            json.dumps(body).encode(),
            content_type=MERGE,
            authorization="Bearer joe",
        )
        codes.append(answer.status)
    assert codes == [200, 403]
