"""Situations in clusters that concern only the signatures of cluster-info."""

import asyncio
from datetime import timedelta
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.controllers.identity.bootstrapsigner.controller import (
    PREFIX,
    detached_signature,
)
from tests.controllers.identity.tokencleaner.builders import (
    TOKEN_SECRET,
    bootstrap_token,
)
from tests.simulation.environment import Environment, Scenario

_PUBLIC: Final = "kube-public"
_ID: Final = "abc123"
_SIGNATURE: Final = f"{PREFIX}{_ID}"


def _begin(environment: Environment, expiration: str = "") -> None:
    world = environment.world
    world.create_namespace(_PUBLIC)
    found = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "one"}}
    world.server.objects.create(world.kind("configmaps"), _PUBLIC, found)
    secret = bootstrap_token(_ID, expiration)
    world.server.objects.create(world.kind("secrets"), "kube-system", secret)


def _cluster_info(environment: Environment) -> JSON:
    found = environment.world.find("configmaps", _PUBLIC, "cluster-info")
    assert found is not None
    return found


def _is_signed(environment: Environment, text: str) -> bool:
    signature = _cluster_info(environment)["data"].get(_SIGNATURE)
    return bool(signature == detached_signature(text, _ID, TOKEN_SECRET))


async def signature_of_another_text(environment: Environment) -> None:
    """No issue: the text of cluster-info changes; it is signed anew."""
    await asyncio.sleep(10)
    _begin(environment)
    await environment.until(lambda: _is_signed(environment, "one"), within=30)
    environment.world.change(
        "configmaps",
        _cluster_info(environment),
        lambda obj: obj["data"].update(kubeconfig="two"),
    )
    await environment.until(lambda: _is_signed(environment, "two"), within=30)


async def signature_of_a_token_that_ends(environment: Environment) -> None:
    """No issue: a token expires; its signature goes at that time."""
    await asyncio.sleep(10)
    end = environment.world.clock.now() + timedelta(seconds=60)
    _begin(environment, format_time(end))
    await environment.until(lambda: _is_signed(environment, "one"), within=30)
    await asyncio.sleep(60)
    await environment.until(
        lambda: _SIGNATURE not in _cluster_info(environment)["data"], within=10
    )


SCENARIOS: Final[tuple[Scenario, ...]] = (
    signature_of_another_text,
    signature_of_a_token_that_ends,
)
"""They are about one token that signs, and one config map."""
