"""Situations in clusters that concern only the expiry of bootstrap tokens."""

import asyncio
from datetime import timedelta
from typing import Final

from controller_manager.api.core.secrets import encoded
from controller_manager.api.scalars import format_time
from tests.controllers.identity.tokencleaner.builders import bootstrap_token
from tests.simulation.environment import Environment, Scenario

_NAMESPACE: Final = "kube-system"
_ID: Final = "abc123"


def _in(environment: Environment, seconds: float) -> str:
    return format_time(environment.world.clock.now() + timedelta(seconds=seconds))


def _create(environment: Environment, expiration: str) -> None:
    kind = environment.world.kind("secrets")
    secret = bootstrap_token(_ID, expiration)
    environment.world.server.objects.create(kind, _NAMESPACE, secret)


def _stands(environment: Environment) -> bool:
    name = f"bootstrap-token-{_ID}"
    return environment.world.find("secrets", _NAMESPACE, name) is not None


async def bootstrap_token_that_expires(environment: Environment) -> None:
    """No issue: a token goes at its time, though nothing else changes."""
    await asyncio.sleep(10)
    _create(environment, _in(environment, 60))
    await asyncio.sleep(55)
    assert _stands(environment)
    await environment.until(lambda: not _stands(environment), within=10)


async def bootstrap_token_that_is_prolonged(environment: Environment) -> None:
    """No issue: a token gets more time; its first timer deletes nothing."""
    await asyncio.sleep(10)
    _create(environment, _in(environment, 60))
    await asyncio.sleep(30)
    name = f"bootstrap-token-{_ID}"
    secret = environment.world.find("secrets", _NAMESPACE, name)
    assert secret is not None
    later = encoded(_in(environment, 600))
    environment.world.change(
        "secrets", secret, lambda obj: obj["data"].update(expiration=later)
    )
    await asyncio.sleep(500)
    assert _stands(environment)
    await environment.until(lambda: not _stands(environment), within=120)


async def bootstrap_token_without_a_readable_end(environment: Environment) -> None:
    """No issue: as upstream, an expiration that is no time has passed."""
    await asyncio.sleep(10)
    _create(environment, "tomorrow")
    await environment.until(lambda: not _stands(environment), within=10)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    bootstrap_token_that_expires,
    bootstrap_token_that_is_prolonged,
    bootstrap_token_without_a_readable_end,
)
