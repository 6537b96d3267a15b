"""The time by the size of the cluster, on every node (ttl_controller.go)."""

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from controller_manager.api.core.v1 import NODE_TTL, NODES, Node
from controller_manager.client.errors import NotFound
from controller_manager.informers.informer import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import DONE, Outcome

_WORKERS: Final = 5


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


def init_ttl_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informer (newTTLController)."""
    controller = TTLController(context)
    return context.workers(
        controller.queue, controller.sync, _WORKERS, on_start=controller.begin
    )


class TTLController:
    """Keeps an annotation of every node equal to what the cluster's size demands.

    When the size changes, all nodes are looked at at once; upstream waits until
    each of them has changed by itself.
    """

    def __init__(self, context: ControllerContext) -> None:
        """Take the context and watch nodes."""
        self.queue = context.queue("ttlcontroller")
        self._client = context.client
        self._step = 0
        self._nodes = context.informers.informer(NODES)
        self._nodes.add_handler(
            Handler(
                on_add=self._changed,
                on_update=lambda _, new: self._changed(new),
                on_delete=self._changed,
            )
        )

    def begin(self) -> Iterator[None]:
        """Begin to act: look at every node once."""
        for node in self._nodes.store:
            self._enqueue(node)
            yield

    def _enqueue(self, node: Node) -> None:
        self.queue.add(node.metadata.name)

    def _changed(self, node: Node) -> None:
        self._enqueue(node)
        step = step_for(len(self._nodes.store), self._step)
        if step != self._step:
            self._step = step
            for each in self._nodes.store:
                self._enqueue(each)

    async def sync(self, key: str) -> Outcome:
        """Annotate the node of that name if it says something else."""
        node = self._nodes.store.get(key)
        if node is None:
            return DONE
        wanted = str(STEPS[self._step].seconds)
        annotations = node.metadata.annotations
        if annotations is not None and annotations.ttl == wanted:
            return DONE
        metadata = {"annotations": {NODE_TTL: wanted}, "uid": node.metadata.uid}
        try:
            await self._client.patch(NODES, "", key, {"metadata": metadata})
        except NotFound:
            return DONE
        return DONE
