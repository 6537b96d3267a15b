"""Situations in clusters that concern only token secrets."""

import asyncio
from typing import Final

from controller_manager.api.core.secrets import ACCOUNT_UID
from controller_manager.api.json_objects import JSON
from tests.controllers.identity.tokens.workload import create_account, is_filled
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_NAME: Final = "robot"


def _secret(environment: Environment) -> JSON | None:
    return environment.world.find("secrets", NAMESPACE, _NAME)


def _account(environment: Environment) -> JSON:
    found = environment.world.find("serviceaccounts", NAMESPACE, _NAME)
    assert found is not None
    return found


async def _begin(environment: Environment) -> None:
    await asyncio.sleep(10)
    create_account(environment.world, NAMESPACE, _NAME)
    await environment.until(lambda: is_filled(_secret(environment)), within=60)


def _replace_account(environment: Environment) -> None:
    world = environment.world
    world.delete("serviceaccounts", _account(environment))
    kind = world.kind("serviceaccounts")
    world.server.objects.create(kind, NAMESPACE, {"metadata": {"name": _NAME}})


async def token_of_a_replaced_account(environment: Environment) -> None:
    """No issue: an account is replaced at once.

    As upstream: the token goes with its account, the new account gets none.
    """
    await _begin(environment)
    _replace_account(environment)
    await environment.until(lambda: _secret(environment) is None, within=60)


async def token_that_names_no_account(environment: Environment) -> None:
    """No issue: an account is replaced, and the secret has no annotation of its uid.

    The uid in the token is not verified: the secret stays for the new account.
    """
    await _begin(environment)
    secret = _secret(environment)
    assert secret is not None
    environment.world.change(
        "secrets", secret, lambda obj: obj["metadata"]["annotations"].pop(ACCOUNT_UID)
    )
    _replace_account(environment)
    await asyncio.sleep(60)
    environment.manager.crash()
    await asyncio.sleep(60)
    assert is_filled(_secret(environment))
    environment.world.delete("serviceaccounts", _account(environment))
    await environment.until(lambda: _secret(environment) is None, within=60)


async def token_of_a_gone_account(environment: Environment) -> None:
    """No issue: an account is deleted, and then its untouched token secret."""
    await _begin(environment)
    environment.world.delete("serviceaccounts", _account(environment))
    await environment.until(lambda: _secret(environment) is None, within=60)


async def token_of_an_unseen_account(environment: Environment) -> None:
    """No issue: the cache of accounts lags while an account gets its secret.

    As upstream: the account is read from the API server before the secret is deleted.
    """
    await asyncio.sleep(10)
    environment.manager.connection.lagging["serviceaccounts"] = environment.now + 120
    create_account(environment.world, NAMESPACE, _NAME)
    await environment.until(lambda: is_filled(_secret(environment)), within=60)
    await asyncio.sleep(300)


async def token_that_is_deleted(environment: Environment) -> None:
    """No issue: a user deletes a token that the account lists.

    As upstream: the list of the account loses the entry.
    """
    await _begin(environment)
    secret = _secret(environment)
    assert secret is not None
    environment.world.delete("secrets", secret)
    await environment.until(lambda: not _account(environment).get("secrets"), within=60)


async def token_that_is_spoiled(environment: Environment) -> None:
    """No issue: a user removes the authority; the token beside it stays as it was."""
    await _begin(environment)
    secret = _secret(environment)
    assert secret is not None
    environment.world.change("secrets", secret, lambda obj: obj["data"].pop("ca.crt"))
    await environment.until(lambda: is_filled(_secret(environment)), within=60)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    token_of_a_gone_account,
    token_of_a_replaced_account,
    token_of_an_unseen_account,
    token_that_names_no_account,
    token_that_is_deleted,
    token_that_is_spoiled,
)
