"""Hands-info is signed with every bootstrap token that may sign."""

import asyncio
import base64
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from controller_manager.api.core.secrets import (
    BOOTSTRAP_TOKEN,
    SECRETS,
    Secret,
    encoded,
)
from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.client import PatchType
from controller_manager.controllers.identity.bootstrapsigner.controller import (
    detached_signature,
    signed,
    signing_tokens,
)
from tests.clusters import make_config
from tests.controllers.hands import Before, Hands
from tests.controllers.identity.tokencleaner.builders import (
    TOKEN_SECRET,
    add_token,
    bootstrap_token,
)
from tests.controllers.responses import refusal
from tests.controllers.rows import rows

CONFIG = make_config(controllers=("bootstrapsigner",))
KEY = "jws-kubeconfig-"


def add_cluster_info(cluster: Hands, namespace: str = "kube-public") -> None:
    cluster.add_namespace(namespace)
    kind = cluster.server.catalogue.find("", "v1", "configmaps")
    assert kind is not None
    found = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "one"}}
    cluster.server.objects.create(kind, namespace, found)


async def _data(cluster: Hands, namespace: str = "kube-public") -> dict[str, str]:
    found = await cluster.client.get(CONFIG_MAPS, namespace, "cluster-info")
    return found.data or {}


@pytest.mark.looptime
async def test_signatures_follow_the_tokens_and_the_text(cluster: Hands) -> None:
    add_cluster_info(cluster)
    add_cluster_info(cluster, "other")
    async with cluster.manager(CONFIG) as recording:
        for token_id in ("abcdef", "ghijkl"):
            add_token(cluster, bootstrap_token(token_id))
        add_token(cluster, bootstrap_token("nosign", usage_bootstrap_signing="false"))
        add_token(cluster, bootstrap_token("elsewh"), "default")
        await asyncio.sleep(1)
        both = await _data(cluster)
        changed = {"data": {"kubeconfig": "two"}}
        await cluster.client.patch(
            CONFIG_MAPS, "kube-public", "cluster-info", changed, PatchType.MERGE
        )
        await asyncio.sleep(1)
        anew = await _data(cluster)
        await cluster.client.patch(
            SECRETS,
            "kube-system",
            "bootstrap-token-ghijkl",
            {"data": {"usage-bootstrap-signing": None}},
            PatchType.MERGE,
        )
        await asyncio.sleep(1)
        one = await _data(cluster)
        await cluster.client.delete(SECRETS, "kube-system", "bootstrap-token-abcdef")
        await asyncio.sleep(1)
        none = await _data(cluster)
        assert await _data(cluster, "other") == {"kubeconfig": "one"}
    first, second = (
        {
            f"{KEY}{each}": detached_signature(text, each, TOKEN_SECRET)
            for each in ("abcdef", "ghijkl")
        }
        for text in ("one", "two")
    )
    assert both == {"kubeconfig": "one", **first}
    assert anew == {"kubeconfig": "two", **second}
    assert one == {"kubeconfig": "two", f"{KEY}abcdef": second[f"{KEY}abcdef"]}
    assert none == {"kubeconfig": "two"}
    assert {(each.method, each.status) for each in recording.writes} == {("PUT", 200)}
    assert len(recording.writes) <= 5


@pytest.mark.looptime
async def test_a_signature_goes_when_its_token_expires(cluster: Hands) -> None:
    add_cluster_info(cluster)
    soon = format_time(cluster.clock.now() + timedelta(seconds=30))
    add_token(cluster, bootstrap_token("soon01", soon))
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        assert f"{KEY}soon01" in await _data(cluster)
        await asyncio.sleep(31)
        assert await _data(cluster) == {"kubeconfig": "one"}


@pytest.mark.looptime
async def test_a_conflict_that_no_change_follows_is_tried_again(cluster: Hands) -> None:
    add_cluster_info(cluster)
    add_token(cluster, bootstrap_token("abcdef"))
    once = Before(cluster, "PUT", "cluster-info", lambda: refusal(409, "Conflict"))
    async with cluster.manager(CONFIG, once):
        await asyncio.sleep(1)
        assert f"{KEY}abcdef" in await _data(cluster)


@pytest.mark.looptime
async def test_its_roles_are_enough() -> None:
    cluster = Hands(rbac=True)
    add_cluster_info(cluster)
    add_token(cluster, bootstrap_token("abcdef"))
    settings = make_config(
        controllers=("bootstrapsigner",), use_service_account_credentials=True
    )
    async with cluster.confined_manager(settings) as recording:
        await asyncio.sleep(1)
        assert f"{KEY}abcdef" in await _data(cluster)
    assert [each.status for each in recording.writes] == [200]


NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("content", "token_id", "secret", "signature"),
    [
        (
            "config one",
            "abcdef",
            "0123456789abcdef",
            (
                "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9"
                "..Efn-1RwUDjn1OEvYpiKbcLYkPaOYsy906UzsZ7lq8Ag"
            ),
        ),
        (
            "config two",
            "ghijkl",
            "fedcba9876543210",
            (
                "eyJhbGciOiJIUzI1NiIsImtpZCI6ImdoaWprbCJ9"
                "..usL2lQg7dplkxJ3UPDkP879Cj2-M_uysiu5GwgwwTp8"
            ),
        ),
        (
            "payload",
            "abc123",
            "tokenSecret",
            (
                "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9"
                "..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958"
            ),
        ),
    ],
)
def test_a_signature_is_upstreams(
    content: str, token_id: str, secret: str, signature: str
) -> None:
    assert detached_signature(content, token_id, secret) == signature


def _token(
    name: str = "bootstrap-token-abc123", namespace: str = "kube-system", **data: str
) -> Secret:
    given = {
        "token-id": "abc123",
        "token-secret": "s",
        "usage-bootstrap-signing": "true",
        **{key.replace("_", "-"): value for key, value in data.items()},
    }
    return Secret(
        metadata=ObjectMeta(name=name, namespace=namespace),
        data={key: encoded(value) for key, value in given.items()},
        type=BOOTSTRAP_TOKEN,
    )


@rows(
    "secret tokens",
    {
        "valid": (_token(), {"abc123": "s"}),
        "in time": (_token(expiration="2026-03-20T12:00:01Z"), {"abc123": "s"}),
        "expired": (_token(expiration="2026-03-20T12:00:00Z"), {}),
        "of no readable end": (_token(expiration="soon"), {}),
        "may not sign": (_token(usage_bootstrap_signing="false"), {}),
        "not the word": (_token(usage_bootstrap_signing="True"), {}),
        "another id than its name": (_token(token_id="abc124"), {}),
        "no secret": (_token(token_secret=""), {}),
        "another name": (_token(name="abc123"), {}),
        "another namespace": (_token(namespace="default"), {}),
    },
)
def test_only_valid_tokens_sign(secret: Secret, tokens: dict[str, str]) -> None:
    assert signing_tokens([secret], NOW) == tokens


def test_signatures_are_added_corrected_and_removed() -> None:
    right = detached_signature("c", "abc123", "s")
    data = {"kubeconfig": "c", "mine": "x", "jws-kubeconfig-gone00": "y"}
    wanted = {"kubeconfig": "c", "mine": "x", "jws-kubeconfig-abc123": right}
    assert signed(data, {"abc123": "s"}) == wanted
    assert signed({**wanted, "jws-kubeconfig-abc123": "z"}, {"abc123": "s"}) == wanted
    assert signed(wanted, {"abc123": "s"}) is None


def test_without_a_text_old_signatures_stay() -> None:
    """As upstream; an empty text is signed."""
    assert signed({"jws-kubeconfig-abc123": "y"}, {}) is None
    assert signed({"kubeconfig": "", "jws-kubeconfig-abc123": "y"}, {}) == {
        "kubeconfig": ""
    }


def test_a_secret_of_any_bytes_signs() -> None:
    """Upstream takes the bytes as they are, whether they are UTF-8 or not."""
    key = bytes(range(0xF0, 0x100))
    data = {
        "token-id": encoded("abc123"),
        "token-secret": base64.b64encode(key).decode(),
        "usage-bootstrap-signing": encoded("true"),
    }
    secret = _token()
    (token,) = signing_tokens([replace(secret, data=data)], NOW).values()
    signature = detached_signature("text", "abc123", token)
    head, _, mac = signature.split(".")
    signed_text = f"{head}.dGV4dA".encode()
    expected = hmac.digest(key, signed_text, "sha256")
    assert mac == base64.urlsafe_b64encode(expected).rstrip(b"=").decode()
