"""Token secrets are filled, completed and deleted; the recordings say how."""

import asyncio
import io
from typing import Any

import jwt
import msgspec
import pytest

from controller_manager.api.core.secrets import ACCOUNT_UID, SECRETS, Secret, decoded
from controller_manager.api.core.v1 import SERVICE_ACCOUNTS
from controller_manager.api.json_objects import JSON
from controller_manager.client.builder import Connections
from controller_manager.controllers.identity.tokens import TokensOptions
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.manager.startup import StartError
from controller_manager.observability.logs import make_logger
from tests.clusters import ROOT_CA, RecordingTransport, make_config, run_manager
from tests.controllers.hands import Hands
from tests.controllers.identity.tokens.clusters import (
    NAME,
    add_secret,
    config,
    edit,
    secrets,
    token_secret,
    with_key,
)
from tests.controllers.identity.tokens.keys import elliptic_key, pem, rsa_key
from tests.controllers.scenarios import Scenario, scenarios

pytestmark = pytest.mark.looptime


def _add_account(cluster: Hands, *listed: str, name: str = "robot") -> None:
    references = [{"name": each} for each in listed]
    cluster.add("ServiceAccount", name, secrets=references)


def _claims(secret: Secret) -> object:
    key = elliptic_key().public_key()
    return jwt.decode(decoded(secret, "token"), key, algorithms=["ES256"])


class Accounts(Hands):
    """A cluster with accounts and their tokens."""

    def account(self, *listed: str, name: str = "robot") -> None:
        _add_account(self, *listed, name=name)

    def secret(self, name: str, account: str, uid: str = "", **parts: Any) -> None:
        uids = {
            "metadata": token_secret(name, account, **{ACCOUNT_UID: uid})["metadata"]
        }
        add_secret(self, name, account, **(uids if uid else {}), **parts)

    def annotations(self, name: str) -> JSON:
        return dict(self.stored(SECRETS, name)["metadata"]["annotations"])

    def _secret(self, name: str) -> Secret:
        return msgspec.convert(self.stored(SECRETS, name), Secret)

    def data(self, name: str) -> dict[str, str]:
        """Return the decoded data of a secret, without the token."""
        secret = self._secret(name)
        return {k: decoded(secret, k) for k in secret.data or {} if k != "token"}

    def claims(self, name: str) -> object:
        return _claims(self._secret(name))

    def listed(self, name: str = "robot") -> list[str] | None:
        found = self.stored(SERVICE_ACCOUNTS, name).get("secrets")
        return found and [each["name"] for each in found]


@scenarios("identity/tokens")
async def test_tokens_follow_accounts(scenario: Scenario) -> None:
    await scenario.play(Accounts, config)


async def test_an_rsa_key_signs_too(cluster: Hands) -> None:
    _add_account(cluster)
    add_secret(cluster, "tok", "robot")
    settings = with_key(make_config(controllers=(NAME,)), "RS256")
    async with cluster.manager(settings):
        await asyncio.sleep(1)
        token = decoded((await secrets(cluster))["tok"], "token")
    key = rsa_key().public_key()
    assert jwt.decode(token, key, algorithms=["RS256"])["sub"].endswith(":robot")


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
