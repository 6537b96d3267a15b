"""Token secrets are filled, completed and deleted; the recordings say how."""

import asyncio
import io
import json

import jwt
import pytest

from controller_manager.api.core.secrets import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    SECRETS,
    Secret,
    decoded,
)
from controller_manager.api.core.v1 import (
    SERVICE_ACCOUNTS,
    ObjectReference,
    ServiceAccount,
)
from controller_manager.api.meta import annotations_of
from controller_manager.client.builder import Connections
from controller_manager.controllers.identity.tokens import TokensOptions
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.manager.startup import StartError
from controller_manager.observability.logs import make_logger
from tests.clusters import ROOT_CA, RecordingTransport, make_config, run_manager
from tests.controllers.apps.replicaset.test_on_cluster import hold
from tests.controllers.hands import Before, Hands
from tests.controllers.identity.tokens.clusters import (
    NAME,
    add_secret,
    config,
    edit,
    secrets,
    with_key,
)
from tests.controllers.identity.tokens.keys import elliptic_key, pem, rsa_key
from tests.controllers.responses import refusal

pytestmark = pytest.mark.looptime


async def _account(cluster: Hands, name: str = "robot") -> ServiceAccount:
    return await cluster.client.get(SERVICE_ACCOUNTS, "default", name)


def _add_account(cluster: Hands, *listed: str, name: str = "robot") -> None:
    references = [{"name": each} for each in listed]
    cluster.add("ServiceAccount", name, secrets=references)


def _claims(secret: Secret) -> object:
    key = elliptic_key().public_key()
    return jwt.decode(decoded(secret, "token"), key, algorithms=["ES256"])


async def test_a_token_secret_is_filled(cluster: Hands) -> None:
    _add_account(cluster)
    add_secret(cluster, "tok", "robot", data={"extra": "bWluZQ=="})
    cluster.add("Secret", "keep", metadata={"name": "keep"}, data={"k": "dg=="})
    async with cluster.manager(config()) as recording:
        await asyncio.sleep(1)
        found = (await secrets(cluster))["tok"]
        uid = (await _account(cluster)).metadata.uid
    assert annotations_of(found.metadata) == {ACCOUNT_NAME: "robot", ACCOUNT_UID: uid}
    assert {key: decoded(found, key) for key in ("ca.crt", "extra", "namespace")} == {
        "ca.crt": ROOT_CA,
        "extra": "mine",
        "namespace": "default",
    }
    assert _claims(found) == {
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": "tok",
        "kubernetes.io/serviceaccount/service-account.name": "robot",
        "kubernetes.io/serviceaccount/service-account.uid": uid,
        "sub": "system:serviceaccount:default:robot",
    }
    assert [(each.method, each.status) for each in recording.writes] == [("PUT", 200)]


async def test_an_rsa_key_signs_too(cluster: Hands) -> None:
    _add_account(cluster)
    add_secret(cluster, "tok", "robot")
    settings = with_key(make_config(controllers=(NAME,)), "RS256")
    async with cluster.manager(settings):
        await asyncio.sleep(1)
        token = decoded((await secrets(cluster))["tok"], "token")
    key = rsa_key().public_key()
    assert jwt.decode(token, key, algorithms=["RS256"])["sub"].endswith(":robot")


async def test_a_secret_of_no_account_is_deleted(cluster: Hands) -> None:
    _add_account(cluster)
    add_secret(cluster, "nobody", "ghost")
    add_secret(cluster, "odd", "../secrets/x")
    annotations = {ACCOUNT_NAME: "robot", ACCOUNT_UID: "another"}
    add_secret(
        cluster, "other", "", metadata={"name": "other", "annotations": annotations}
    )
    async with cluster.manager(config()) as recording:
        await asyncio.sleep(1)
        assert await secrets(cluster) == {}
    prefix = "/api/v1/namespaces/default/secrets/"
    assert sorted((each.method, each.path) for each in recording.writes) == [
        ("DELETE", f"{prefix}{name}") for name in ("nobody", "odd", "other")
    ]
    assert {*json.loads(recording.writes[0].body)["preconditions"]} == {
        "uid",
        "resourceVersion",
    }


async def test_tokens_go_with_their_account(cluster: Hands) -> None:
    _add_account(cluster)
    add_secret(cluster, "tok", "robot")
    cluster.add("Secret", "keep", metadata={"name": "keep"}, data={"k": "dg=="})
    async with cluster.manager(config()):
        await asyncio.sleep(1)
        cluster.remove(SERVICE_ACCOUNTS, "robot")
        await asyncio.sleep(1)
        assert [*await secrets(cluster)] == ["keep"]
        _add_account(cluster)
        add_secret(cluster, "late", "robot")
        await asyncio.sleep(1)
        late = (await secrets(cluster))["late"]
    assert decoded(late, "namespace") == "default"


async def test_a_late_watch_costs_no_account_its_secret(cluster: Hands) -> None:
    """The cache has the old account; the new secret gets the uid of the new one.

    Upstream takes the cached account for a secret without a uid, and deletes the secret
    when it sees the new account.
    """
    free = hold(cluster, "serviceaccounts")
    _add_account(cluster)
    async with cluster.manager(config()):
        await asyncio.sleep(1)
        free.clear()
        cluster.remove(SERVICE_ACCOUNTS, "robot")
        _add_account(cluster, "tok")
        add_secret(cluster, "tok", "robot")
        await asyncio.sleep(1)
        filled = await secrets(cluster)
        free.set()
        await asyncio.sleep(1)
        assert await secrets(cluster) == filled
    uid = (await _account(cluster)).metadata.uid
    assert annotations_of(filled["tok"].metadata)[ACCOUNT_UID] == uid


async def test_a_secret_without_the_uid_is_kept(cluster: Hands) -> None:
    """The uid in its token is not verified, so nothing is deleted because of it.

    The secret may hold more than the token, and a user may have restored both from a
    backup, with which the account gets a new uid.
    """
    _add_account(cluster)
    add_secret(cluster, "tok", "robot", data={"extra": "bWluZQ=="})
    async with cluster.manager(config()):
        await asyncio.sleep(1)
    await edit(cluster, "tok", {"metadata": {"annotations": {ACCOUNT_UID: None}}})
    before = await secrets(cluster)
    cluster.remove(SERVICE_ACCOUNTS, "robot")
    _add_account(cluster, "tok")
    async with cluster.manager(config()) as recording:
        await asyncio.sleep(1)
        assert await secrets(cluster) == before
        assert recording.writes == []
        cluster.remove(SECRETS, "tok")
        await asyncio.sleep(1)
        assert (await _account(cluster)).secrets is None


async def test_what_a_user_spoils_is_repaired_as_upstream_does(
    cluster: Hands,
) -> None:
    _add_account(cluster)
    for name in "abcd":
        add_secret(cluster, name, "robot")
    async with cluster.manager(config()) as recording:
        await asyncio.sleep(1)
        before = await secrets(cluster)
        recording.writes.clear()
        await edit(cluster, "a", {"data": {"token": None}})
        await edit(cluster, "b", {"data": {"ca.crt": "d3Jvbmc=", "namespace": None}})
        await edit(cluster, "c", {"data": {"token": "d3Jvbmc=", "namespace": "eA=="}})
        await edit(cluster, "d", {"metadata": {"annotations": {ACCOUNT_UID: None}}})
        await asyncio.sleep(1)
        between = await secrets(cluster)
        await edit(cluster, "d", {"data": {"ca.crt": None}})
        await asyncio.sleep(1)
        after = await secrets(cluster)
    names = [each.path.rpartition("/")[2] for each in recording.writes]
    assert names == ["a", "b", "d"]
    assert between["b"].data == before["b"].data
    assert _claims(between["a"]) == _claims(before["a"])
    assert decoded(between["c"], "token") == "wrong"
    assert annotations_of(between["d"].metadata) == {ACCOUNT_NAME: "robot"}
    assert annotations_of(after["d"].metadata) == annotations_of(before["d"].metadata)
    assert after["d"].data == before["d"].data


async def test_a_conflict_that_no_change_follows_is_tried_again(cluster: Hands) -> None:
    """A webhook may answer so; upstream waits for a change that never comes."""
    _add_account(cluster)
    add_secret(cluster, "tok", "robot")
    once = Before(cluster, "PUT", "/tok", lambda: refusal(409, "Conflict"))
    async with cluster.manager(config(), once):
        await asyncio.sleep(1)
        assert decoded((await secrets(cluster))["tok"], "token")


async def test_a_deleted_secret_leaves_the_list_of_its_account(
    cluster: Hands,
) -> None:
    _add_account(cluster, "tok", "keep")
    _add_account(cluster, "last", name="other")
    add_secret(cluster, "tok", "robot")
    add_secret(cluster, "last", "other")
    async with cluster.manager(config()) as recording:
        await asyncio.sleep(1)
        recording.writes.clear()
        for name in ("tok", "last"):
            cluster.remove(SECRETS, name)
            await asyncio.sleep(1)
        found = [(await _account(cluster, name)).secrets for name in ("robot", "other")]
    assert found == [(ObjectReference(name="keep"),), None]
    assert [each.path.rpartition("/")[2] for each in recording.writes] == [
        "robot",
        "other",
    ]


async def test_a_new_account_keeps_its_list(cluster: Hands) -> None:
    _add_account(cluster, "tok")
    add_secret(cluster, "tok", "robot")
    async with cluster.manager(config()):
        await asyncio.sleep(1)
        cluster.remove(SERVICE_ACCOUNTS, "robot")
        _add_account(cluster, "tok")
        await asyncio.sleep(1)
        assert await secrets(cluster) == {}
        account = await _account(cluster)
    assert account.secrets == (ObjectReference(name="tok"),)


async def test_without_a_key_the_controller_does_not_run(cluster: Hands) -> None:
    """As upstream: nothing is filled, and nothing deleted."""
    add_secret(cluster, "nobody", "ghost")
    log = io.StringIO()
    settings = make_config(controllers=(NAME, "ttl"))
    async with cluster.manager(settings, logger=make_logger(stream=log)) as recording:
        await asyncio.sleep(60)
    assert recording.writes == []
    assert (
        f'"Controller is disabled by the configuration" controller="{NAME}" '
        'give="--service-account-private-key-file"'
    ) in log.getvalue()


async def test_a_key_that_cannot_be_used_ends_the_start(cluster: Hands) -> None:
    options = TokensOptions(private_key_file="/nowhere/sa.key")
    settings = make_config(controllers=(NAME,))
    settings.controllers[TokensOptions] = options  # type: ignore[index]
    with pytest.raises(ExceptionGroup) as caught:
        async with cluster.manager(settings):
            pass
    (error,) = caught.value.exceptions
    assert isinstance(error, StartError)
    assert str(error) == (
        f"{NAME} of controller_manager.controllers.identity.tokens cannot be made: "
        "KeyFileError: --service-account-private-key-file: /nowhere/sa.key: No such "
        f"file or directory; repair it, or disable it with --controllers=*,-{NAME}"
    )


async def test_it_starts_first_and_acts_as_the_manager() -> None:
    cluster = Hands(rbac=True)
    cluster.server.tokens.add("manager", User(MANAGER))
    _add_account(cluster)
    add_secret(cluster, "tok", "robot")
    own = RecordingTransport(InMemoryTransport(cluster.server, "manager"))
    others = RecordingTransport(InMemoryTransport(cluster.server))
    connections = Connections(own, anonymous=others, root_ca=ROOT_CA)
    settings = config("root-ca-cert-publisher", "serviceaccount")
    async with run_manager(
        connections, cluster.clock, cluster.rng, settings
    ) as manager:
        await asyncio.sleep(1)
        assert manager.controllers.names[0] == NAME
        assert manager.controllers.names[1:] == sorted(manager.controllers.names[1:])
    filled = "/api/v1/namespaces/default/secrets/tok"
    assert [each.path for each in own.writes].count(filled) == 1
    assert [each for each in others.writes if each.path == filled] == []


async def test_neither_keys_nor_tokens_are_logged(cluster: Hands) -> None:
    log = io.StringIO()
    _add_account(cluster, "tok")
    add_secret(cluster, "tok", "robot")
    logger = make_logger(stream=log, verbosity=10)
    async with cluster.manager(config(), logger=logger):
        await asyncio.sleep(1)
        token = decoded((await secrets(cluster))["tok"], "token")
        await edit(cluster, "tok", {"data": {"ca.crt": None}})
        await asyncio.sleep(1)
        cluster.remove(SERVICE_ACCOUNTS, "robot")
        await asyncio.sleep(1)
    assert log.getvalue()
    assert token[-20:] not in log.getvalue()
    assert pem(elliptic_key()).decode().splitlines()[1] not in log.getvalue()
