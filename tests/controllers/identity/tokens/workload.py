"""A workload: users change and delete token secrets, and replace accounts."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.identity.tokens.clusters import token_secret
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


ROBOTS: Final = "robots"
"""The namespace of the accounts whose tokens users change."""

_ACCOUNTS: Final = ("cook", "smith")
_KEYS: Final = ("ca.crt", "namespace", "token")
_PATIENCE: Final = 3600


def create_account(world: "World", namespace: str, name: str) -> None:
    """Create an account that lists its token secret, and that secret."""
    objects = world.server.objects
    account = {"metadata": {"name": name}, "secrets": [{"name": name}]}
    objects.create(world.kind("serviceaccounts"), namespace, account)
    secret = token_secret(name, name)
    objects.create(world.kind("secrets"), namespace, secret)


def is_filled(secret: JSON | None) -> bool:
    """Tell whether a secret has all that the controller gives it."""
    return secret is not None and all(secret.get("data", {}).get(k) for k in _KEYS)


class TokenUsers(Workload):
    """Users of two accounts with a token each; in other namespaces there is one."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"tokens {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            self.world.create_namespace(ROBOTS)
            for name in _ACCOUNTS:
                create_account(self.world, ROBOTS, name)
        else:
            create_account(self.world, namespace, _ACCOUNTS[0])

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name = rng.choice(_ACCOUNTS)
            await self._until_filled(name)
            if rng.random() < 0.5:
                self._spoil(name, rng.choice(_KEYS))
            else:
                await self._replace(name)

    async def _until_filled(self, name: str) -> None:
        for _ in range(_PATIENCE):
            if is_filled(self.world.find("secrets", ROBOTS, name)):
                return
            await asyncio.sleep(1)

    def _spoil(self, name: str, key: str) -> None:
        secret = self.world.find("secrets", ROBOTS, name)
        if secret is not None:
            self.world.change("secrets", secret, lambda obj: obj["data"].pop(key, None))

    async def _replace(self, name: str) -> None:
        """Delete an account, wait until its token is gone, and create both again."""
        account = self.world.find("serviceaccounts", ROBOTS, name)
        assert account is not None
        self.world.delete("serviceaccounts", account)
        await self.world.until_gone("secrets", ROBOTS, name)
        create_account(self.world, ROBOTS, name)
