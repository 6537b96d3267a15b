"""Annotates each node with a cache TTL by cluster size (ttl_controller.go)."""

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from controller_manager.api.core.v1 import NODE_TTL, NODES, Node
from controller_manager.api.meta import metadata_of
from controller_manager.client.rest.errors import NotFound
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps


class Step(NamedTuple):
    """A range of cluster sizes, in nodes, and the TTL for it, in seconds.

    The ranges overlap, or one node could change the annotation of all each time.
    """

    smallest: float
    largest: float
    seconds: int


STEPS: Final = (
    Step(0, 100, 0),
    Step(90, 500, 15),
    Step(450, 1000, 30),
    Step(900, 2000, 60),
    Step(1800, math.inf, 300),
)


def step_for(nodes: int, step: int) -> int:
    """Return the index in `STEPS` for a number of nodes; `step` is the last index."""
    while nodes > STEPS[step].largest:
        step += 1
    while nodes < STEPS[step].smallest:
        step -= 1
    return step


class TTLReconciler(Reconciler[Node]):
    """Keeps the TTL annotation of each node equal to the TTL for the cluster's size.

    Kubelets cache config maps and secrets for that time. A change adds all nodes;
    upstream waits until each node changes for another reason.
    """

    queue_name = "ttlcontroller"
    workers = 5
    _step = 0

    def _all_if_size_has_changed(self, _: Node) -> Iterable[str]:
        step = step_for(len(self.objects), self._step)
        if step == self._step:
            return ()
        self._step = step
        return self.objects.keys()

    watches = (For(NODES), Maps(NODES, _all_if_size_has_changed))

    async def reconcile(self, node: Node) -> Outcome:
        """Annotate the node if its annotation has another value."""
        wanted = str(STEPS[self._step].seconds)
        annotations = node.metadata.annotations
        if annotations is not None and annotations.ttl == wanted:
            return DONE
        patch = {"metadata": {"annotations": {NODE_TTL: wanted}}}
        with suppress(NotFound):
            await self.client.patch_exactly(metadata_of(NODES), node, patch)
        return DONE
