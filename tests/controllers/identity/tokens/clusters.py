"""A cluster with token secrets, as users see and change them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controller_manager.api.core.secrets import (
    ACCOUNT_NAME,
    SECRETS,
    SERVICE_ACCOUNT_TOKEN,
    Secret,
)
from controller_manager.client.rest.client import PatchType
from controller_manager.controllers.identity.tokens import TokensOptions
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.identity.tokens.keys import key_file

NAME = "serviceaccount-token-controller"


def with_key(config: Config, algorithm: str = "ES256") -> Config:
    options = TokensOptions(private_key_file=key_file(algorithm))
    return replace(config, controllers={**config.controllers, TokensOptions: options})


def config(*more: str, **generic: Any) -> Config:
    """Return a config that runs the controller with a key, and `more` controllers."""
    return with_key(make_config(controllers=(NAME, *more), **generic))


def token_secret(name: str, account: str, **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {ACCOUNT_NAME: account, **annotations}}
    return {"metadata": metadata, "type": SERVICE_ACCOUNT_TOKEN}


def add_secret(cluster: Hands, name: str, account: str, **parts: Any) -> None:
    cluster.add("Secret", name, **{**token_secret(name, account), **parts})


async def secrets(cluster: Hands) -> dict[str, Secret]:
    page = await cluster.client.list_page(SECRETS)
    return {each.metadata.name: each for each in page.items}


async def edit(cluster: Hands, name: str, patch: Mapping[str, Any]) -> None:
    await cluster.client.patch(SECRETS, "default", name, dict(patch), PatchType.MERGE)
