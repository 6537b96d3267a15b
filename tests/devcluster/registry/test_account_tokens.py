"""Tokens in secrets authenticate their service accounts."""

import asyncio
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from controller_manager.api.core.v1 import ServiceAccount
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import ObjectMeta
from controller_manager.controllers.identity.tokens.controller import (
    TokenSigner,
    claims,
)
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.registry.core.secrets import AccountTokens
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import DEFAULT
from tests.devcluster.requests import send

pytestmark = pytest.mark.looptime

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
SECRET = f"{DEFAULT}/secrets/bot"
ACCOUNT = f"{DEFAULT}/serviceaccounts/bot"


async def set_up(cluster: Cluster) -> str:
    """Create an account and the secret with its token; return the token."""
    account = await send(
        cluster, "POST", f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "bot"}}
    )
    token = TokenSigner(KEY).sign(typed(account), "bot")
    secret = {"metadata": {"name": "bot"}, "stringData": {"token": token}}
    await send(cluster, "POST", f"{DEFAULT}/secrets", secret)
    return token


def typed(account: JSON, **change: str) -> ServiceAccount:
    metadata = {**account["metadata"], **change}
    return ServiceAccount(
        metadata=ObjectMeta(
            name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
        )
    )


def user_of(cluster: Cluster, token: str) -> User | None:
    return AccountTokens(cluster.server.objects, KEY.public_key()).user_of(token)


async def labels(cluster: Cluster) -> JSON:
    found: JSON = (await send(cluster, "GET", SECRET))["metadata"].get("labels", {})
    return found


async def test_a_token_authenticates_its_account(cluster: Cluster) -> None:
    token = await set_up(cluster)
    account = await send(cluster, "GET", ACCOUNT)
    for day in ("2026-01-01", "2026-01-02"):
        assert user_of(cluster, token) == User(
            "system:serviceaccount:default:bot",
            account["metadata"]["uid"],
            (
                "system:serviceaccounts",
                "system:serviceaccounts:default",
                "system:authenticated",
            ),
        )
        assert await labels(cluster) == {"kubernetes.io/legacy-token-last-used": day}
        version = cluster.server.storage.version
        assert user_of(cluster, token)
        assert cluster.server.storage.version == version
        await asyncio.sleep(86400)


@pytest.mark.parametrize("path", [SECRET, ACCOUNT])
async def test_a_token_goes_with_its_secret_and_its_account(
    cluster: Cluster, path: str
) -> None:
    token = await set_up(cluster)
    await send(cluster, "DELETE", path)
    assert user_of(cluster, token) is None
    again = {"metadata": {"name": "bot"}}
    await send(cluster, "POST", path.removesuffix("/bot"), again)
    assert user_of(cluster, token) is None


async def test_a_token_that_is_marked_as_invalid_is_refused(cluster: Cluster) -> None:
    token = await set_up(cluster)
    mark = {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}
    await send(cluster, "PATCH", SECRET, {"metadata": {"labels": mark}})
    assert user_of(cluster, token) is None
    unmark = {"metadata": {"labels": dict.fromkeys(mark)}}
    await send(cluster, "PATCH", SECRET, unmark)
    assert user_of(cluster, token)


async def test_a_token_that_is_forged_is_refused(cluster: Cluster) -> None:
    await set_up(cluster)
    account = typed(await send(cluster, "GET", ACCOUNT))
    forged = TokenSigner(OTHER_KEY).sign(account, "bot")
    unsigned = jwt.encode(claims(account, "bot"), "", "none")
    foreign = jwt.encode({**claims(account, "bot"), "iss": "me"}, KEY, "ES256")
    for token in (forged, unsigned, foreign, "", "a.b.c"):
        change = {"stringData": {"token": token}}
        await send(cluster, "PATCH", SECRET, json.loads(json.dumps(change)))
        assert user_of(cluster, token) is None


async def test_the_start_of_the_tracking_is_stored(cluster: Cluster) -> None:
    """The controller that cleans unused tokens up reads it."""
    cluster.server.accept_account_tokens(KEY.public_key())
    name = "kube-apiserver-legacy-service-account-token-tracking"
    path = f"/api/v1/namespaces/kube-system/configmaps/{name}"
    assert (await send(cluster, "GET", path))["data"] == {"since": "2026-01-01"}
    token = await set_up(cluster)
    assert cluster.server.tokens.lookup(token) == user_of(cluster, token)


async def test_a_token_that_its_secret_does_not_hold_is_refused(
    cluster: Cluster,
) -> None:
    token = await set_up(cluster)
    await send(cluster, "PATCH", SECRET, {"stringData": {"token": "another"}})
    assert user_of(cluster, token) is None
