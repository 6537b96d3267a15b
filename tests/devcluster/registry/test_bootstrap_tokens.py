"""Bootstrap tokens authenticate, as their secrets say."""

import asyncio
import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime

TOKEN = "abcdef.0123456789abcdef"
GROUPS = "system:bootstrappers:kubeadm:default-node-token"
SECRET = {
    "token-id": "abcdef",
    "token-secret": "0123456789abcdef",
    "usage-bootstrap-authentication": "true",
    "usage-bootstrap-signing": "true",
    "auth-extra-groups": GROUPS,
    "expiration": "2026-01-01T00:01:00Z",
}


def add_secret(
    cluster: Cluster, name: str = "bootstrap-token-abcdef", **change: Any
) -> None:
    """Store the secret of a token; `change` replaces or removes its data."""
    type_ = change.pop("type", "bootstrap.kubernetes.io/token")
    namespace = change.pop("namespace", "kube-system")
    changed = {key.replace("_", "-"): value for key, value in change.items()}
    data = {
        key: value for key, value in (SECRET | changed).items() if value is not None
    }
    kind = cluster.server.catalogue.of("v1", "Secret")
    assert kind is not None
    secret = {"metadata": {"name": name}, "type": type_, "stringData": data}
    cluster.server.objects.create(kind, namespace, secret)


async def review(cluster: Cluster, token: str = TOKEN) -> JSON:
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    body = json.dumps({"spec": {"token": token}}).encode()
    answer = await cluster.transport.request(Request("POST", path, body=body))
    status: JSON = json.loads(answer.body)["status"]
    return status


async def test_a_bootstrap_token_authenticates_until_it_expires(
    cluster: Cluster,
) -> None:
    """As a user of its own, in the groups of its secret."""
    add_secret(cluster)
    status = await review(cluster)
    assert status["user"] == {
        "username": "system:bootstrap:abcdef",
        "groups": ["system:bootstrappers", GROUPS, "system:authenticated"],
    }
    await asyncio.sleep(60)
    assert "authenticated" not in await review(cluster)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "Opaque"},
        {"namespace": "default"},
        {"token_secret": "0123456789abcdeF"},
        {"token_id": "abcdeg"},
        {"usage_bootstrap_authentication": None},
        {"usage_bootstrap_authentication": "false"},
        {"expiration": "tomorrow"},
        {"auth_extra_groups": "system:masters"},
        {"auth_extra_groups": "system:bootstrappers:a,b"},
        {"name": "bootstrap-token-abcdeg"},
    ],
    ids=str,
)
async def test_a_token_that_its_secret_does_not_allow_is_refused(
    cluster: Cluster, change: JSON
) -> None:
    add_secret(cluster, **change)
    assert "authenticated" not in await review(cluster)


@pytest.mark.parametrize("token", ["abcdef", "abcdef.", f"{TOKEN}0", TOKEN.upper()])
async def test_a_text_of_another_form_is_no_token(cluster: Cluster, token: str) -> None:
    add_secret(cluster)
    assert "authenticated" not in await review(cluster, token)


async def test_a_token_may_live_for_ever(cluster: Cluster) -> None:
    add_secret(cluster, expiration=None, auth_extra_groups=None)
    await asyncio.sleep(1e7)
    groups = (await review(cluster))["user"]["groups"]
    assert groups == ["system:bootstrappers", "system:authenticated"]


async def ask(cluster: Cluster, path: str) -> Response:
    headers = {"authorization": f"Bearer {TOKEN}"}
    answer = await cluster.server.handle(Request("GET", path, headers=headers))
    assert isinstance(answer, Response)
    return answer


async def test_a_deleted_token_is_refused() -> None:
    """At once; its rights are those of its groups."""
    cluster = Cluster(rbac=True)
    add_secret(cluster)
    assert (await ask(cluster, "/api/v1/nodes")).status == 403
    assert (await ask(cluster, "/api")).status == 200
    path = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef"
    await cluster.transport.request(Request("DELETE", path))
    assert (await ask(cluster, "/api")).status == 401


async def test_a_user_is_told_who_it_is() -> None:
    cluster = Cluster(rbac=True)
    add_secret(cluster)
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    headers = {"authorization": f"Bearer {TOKEN}"}
    request = Request("POST", path, headers=headers, body=b"{}")
    answer = await cluster.server.handle(request)
    assert isinstance(answer, Response)
    assert json.loads(answer.body) == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {
            "userInfo": {
                "username": "system:bootstrap:abcdef",
                "groups": ["system:bootstrappers", GROUPS, "system:authenticated"],
            }
        },
    }
