"""A workload: users edit, delete, and create trust bundles."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.certificates.v1beta1 import KUBE_APISERVER_SERVING
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.certificates.clustertrustbundlepublisher.controller import (  # noqa: E501 - a long path
    bundle_name,
)
from tests.clusters import ROOT_CA
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.world import World


PLURAL: Final = "clustertrustbundles"
CURRENT: Final = bundle_name(KUBE_APISERVER_SERVING, ROOT_CA)
FORMER: Final = bundle_name(KUBE_APISERVER_SERVING, "former")
OTHER: Final = "authorities-of-a-user"
EDITED: Final = ROOT_CA[: len(ROOT_CA) // 2]
"""The first of the two authorities."""


def create_bundle(world: "World", name: str, signer: str = "") -> None:
    """Create a bundle, of a signer or of a user."""
    spec = {"trustBundle": ROOT_CA, **({"signerName": signer} if signer else {})}
    bundle = {"metadata": {"name": name}, "spec": spec}
    world.server.objects.create(world.kind(PLURAL), "", bundle)


def edit_bundle(world: "World", bundle: JSON) -> None:
    """Take one of the authorities away."""
    world.change(PLURAL, bundle, lambda obj: obj["spec"].update(trustBundle=EDITED))


class BundleUsers(Workload):
    """An administrator who edits and deletes bundles, and leaves former ones.

    The current bundle is not deleted while a former one is: the publisher cannot know
    of such a deletion in time.
    """

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"trust bundles {world.seed}")

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            current = self.world.find(PLURAL, "", CURRENT)
            former = self.world.find(PLURAL, "", FORMER)
            if current is not None and former is None:
                self._change(current)

    def _change(self, current: JSON) -> None:
        choice = self._rng.random()
        if choice < 0.3:
            create_bundle(self.world, FORMER, KUBE_APISERVER_SERVING)
        elif choice < 0.6:
            edit_bundle(self.world, current)
        else:
            self.world.delete(PLURAL, current)
