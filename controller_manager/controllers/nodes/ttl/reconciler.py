"""The time by the size of the cluster, on every node (ttl_controller.go)."""

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from controller_manager.api.core.v1 import NODE_TTL, NODES, Node
from controller_manager.client.errors import NotFound
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps


class Step(NamedTuple):
    """A size of cluster, from and to how many nodes, and its seconds.

    Sizes overlap, so that one node more or less does not change all of them
    again and again.
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
    """Return which of `STEPS` a cluster is on that was on `step` before."""
    while nodes > STEPS[step].largest:
        step += 1
    while nodes < STEPS[step].smallest:
        step -= 1
    return step


class TTLReconciler(Reconciler[Node]):
    """Keeps an annotation of every node equal to what the cluster's size demands.

    Kubelets read it: that many seconds they may cache config maps and secrets.
    When the size changes, all nodes are looked at at once; upstream waits until
    each of them has changed by itself.
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
        """Annotate the node if it says something else."""
        wanted = str(STEPS[self._step].seconds)
        annotations = node.metadata.annotations
        if annotations is not None and annotations.ttl == wanted:
            return DONE
        metadata = {"annotations": {NODE_TTL: wanted}, "uid": node.metadata.uid}
        with suppress(NotFound):
            name = node.metadata.name
            await self.client.patch(NODES, "", name, {"metadata": metadata})
        return DONE
