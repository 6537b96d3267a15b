"""Tokens of service accounts: their claims and their validity."""

from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import DEFAULT
from tests.devcluster.registry.rbac.requests import ask
from tests.devcluster.requests import send

pytestmark = pytest.mark.looptime

AUDIENCE = "https://kubernetes.default.svc"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCOUNT = f"{DEFAULT}/serviceaccounts/bot"
EXTRA = "authentication.kubernetes.io/"


async def set_up(cluster: Cluster) -> dict[str, str]:
    """Create an account, a node and a pod; return their uids."""
    cluster.add("ServiceAccount", "bot")
    cluster.add("Node", "node-0")
    container = {"name": "c", "image": "i"}
    spec = {
        "serviceAccountName": "bot",
        "nodeName": "node-0",
        "containers": [container],
    }
    cluster.add("Pod", "p", spec=spec)
    paths = {"bot": ACCOUNT, "node": "/api/v1/nodes/node-0", "p": f"{DEFAULT}/pods/p"}
    return {
        name: (await send(cluster, "GET", path))["metadata"]["uid"]
        for name, path in paths.items()
    }


async def token_for(cluster: Cluster, **spec: Any) -> str:
    answer = await send(cluster, "POST", f"{ACCOUNT}/token", {"spec": spec})
    found: str = answer["status"]["token"]
    return found


async def review(cluster: Cluster, token: str, **spec: Any) -> JSON:
    body = {"spec": {"token": token, **spec}}
    found: JSON = (await send(cluster, "POST", REVIEWS, body))["status"]
    return found


async def test_a_token_says_whose_it_is(cluster: Cluster) -> None:
    uids = await set_up(cluster)
    pod = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uids["p"]}
    token = await token_for(cluster, boundObjectRef=pod, expirationSeconds=600)
    claims = jwt.decode(token, options={"verify_signature": False})
    number = claims.pop("jti")
    start = int(cluster.clock.now().timestamp())
    assert claims == {
        "aud": [AUDIENCE],
        "exp": start + 600,
        "iat": start,
        "iss": AUDIENCE,
        "nbf": start,
        "sub": "system:serviceaccount:default:bot",
        "kubernetes.io": {
            "namespace": "default",
            "node": {"name": "node-0", "uid": uids["node"]},
            "pod": {"name": "p", "uid": uids["p"]},
            "serviceaccount": {"name": "bot", "uid": uids["bot"]},
        },
    }
    user = {
        "username": "system:serviceaccount:default:bot",
        "uid": uids["bot"],
        "groups": [
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated",
        ],
        "extra": {
            f"{EXTRA}credential-id": [f"JTI={number}"],
            f"{EXTRA}node-name": ["node-0"],
            f"{EXTRA}node-uid": [uids["node"]],
            f"{EXTRA}pod-name": ["p"],
            f"{EXTRA}pod-uid": [uids["p"]],
        },
    }
    assert await review(cluster, token) == {
        "authenticated": True,
        "user": user,
        "audiences": [AUDIENCE],
    }
    _, answer = await ask(cluster, token, "POST", WHO, {})
    assert answer["status"]["userInfo"] == user


async def test_tokens_outlive_the_server_that_signed_them(cluster: Cluster) -> None:
    """If its key does; a token with another signature is none."""
    await set_up(cluster)
    key = ec.generate_private_key(ec.SECP256R1())
    with_secret = await token_for(cluster)
    cluster.server.sign_account_tokens(key)
    token = await token_for(cluster)
    head, claims, _ = token.split(".")
    for wrong in (with_secret, f"{head}.{claims}.AAAA", f"{head}.{claims}.", "a.b.c"):
        assert await review(cluster, wrong) == {
            "user": {},
            "error": "invalid bearer token",
        }
    other = Cluster()
    other.server.sign_account_tokens(key)
    status = await review(other, token)
    assert status["error"] == '[invalid bearer token, serviceaccounts "bot" not found]'


async def test_others_verify_tokens_by_published_keys() -> None:
    """Service accounts may read where the keys are, and the keys."""
    cluster = Cluster(rbac=True)
    await set_up(cluster)
    cluster.server.sign_account_tokens(ec.generate_private_key(ec.SECP256R1()))
    token = await token_for(cluster, audiences=["vault", AUDIENCE])
    path = "/.well-known/openid-configuration"
    assert (await ask(cluster, "", "GET", path))[0] == 403
    status, found = await ask(cluster, token, "GET", path)
    assert (status, found) == (
        200,
        {
            "issuer": AUDIENCE,
            "jwks_uri": f"https://{cluster.server.address}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        },
    )
    status, found = await ask(cluster, token, "GET", "/openid/v1/jwks")
    keys = jwt.PyJWKSet.from_dict(found)
    key = keys[jwt.get_unverified_header(token)["kid"]]
    claims = jwt.decode(
        token,
        key,
        audience="vault",
        options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
    )
    assert claims["sub"] == "system:serviceaccount:default:bot"
