"""A workload: users use and mount legacy tokens, and remove labels."""

import asyncio
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from controller_manager.api.core.secrets import ACCOUNT_NAME, SERVICE_ACCOUNT_TOKEN
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.identity.legacytokencleaner import TRACKING
from controller_manager.controllers.identity.legacytokencleaner.controller import (
    INVALID_SINCE,
    LAST_USED,
)
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


PERIOD: Final = 120.0
"""The clean-up period of the simulation in seconds."""

_TOKENS: Final = ("legacy-idle", "legacy-busy")
_MOUNTED: Final = "legacy-mounted"


def track(world: "World", since: str = "2025-01-01") -> None:
    """Let the API server say since when it tracks the use of tokens."""
    if world.find("configmaps", "kube-system", TRACKING) is None:
        tracking = {"metadata": {"name": TRACKING}, "data": {"since": since}}
        world.server.objects.create(world.kind("configmaps"), "kube-system", tracking)


def create_token(
    world: "World",
    name: str,
    labels: Mapping[str, str] = {},
    *,
    listed: bool = True,
) -> None:
    """Create an account and its token, which the account lists or not."""
    secrets = [{"name": name}] if listed else []
    account = {"metadata": {"name": name}, "secrets": secrets}
    secret = {
        "metadata": {
            "name": name,
            "annotations": {ACCOUNT_NAME: name},
            **({"labels": dict(labels)} if labels else {}),
        },
        "type": SERVICE_ACCOUNT_TOKEN,
    }
    objects = world.server.objects
    objects.create(world.kind("serviceaccounts"), NAMESPACE, account)
    objects.create(world.kind("secrets"), NAMESPACE, secret)


def mount(world: "World", name: str) -> None:
    """Create a pod that mounts a secret of its own name."""
    volume = {"name": "token", "secret": {"secretName": name}}
    containers = [{"name": "c", "image": "i"}]
    spec = {"containers": containers, "volumes": [volume]}
    pod = {"metadata": {"name": name}, "spec": spec}
    world.server.objects.create(world.kind("pods"), NAMESPACE, pod)


def today(world: "World") -> str:
    """Return the day of the API server."""
    return world.clock.now().date().isoformat()


class LegacyTokenUsers(Workload):
    """Programs that use tokens, and an administrator who takes marks away."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"legacy tokens {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            track(self.world)
            for name in (*_TOKENS, _MOUNTED):
                create_token(self.world, name)
            create_token(self.world, "legacy-mine", listed=False)
            mount(self.world, _MOUNTED)

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            name = self._rng.choice(_TOKENS)
            secret = self.world.find("secrets", NAMESPACE, name)
            if secret is None:
                continue
            labels = secret["metadata"].get("labels", {})
            if INVALID_SINCE in labels:
                self._unmark(secret)
            elif self._rng.random() < 0.3:
                self._use(secret)

    def _unmark(self, secret: JSON) -> None:
        self.world.change(
            "secrets", secret, lambda obj: obj["metadata"]["labels"].pop(INVALID_SINCE)
        )

    def _use(self, secret: JSON) -> None:
        used = {LAST_USED: today(self.world)}
        self.world.change(
            "secrets", secret, lambda obj: obj["metadata"].update(labels=used)
        )
