"""The work for kinds that are not served any more, in steps; time is not measured."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.api.meta import (
    OwnerReference,
    PartialMetadata,
    PartialObject,
    Resource,
)
from controller_manager.client.discovery.resources import Discovery, ServedResource
from controller_manager.controllers.cluster.garbagecollector.graph import Graph
from controller_manager.controllers.cluster.garbagecollector.monitors import (
    GraphChanges,
    Monitors,
)
from controller_manager.informers.factory import ControllerInformers, InformerFactory
from controller_manager.observability.logs import silent_logger
from controller_manager.observability.metrics.client import (
    InformerCollectors,
    QueueCollectors,
)
from controller_manager.runtime.worker import BUDGET, Turns
from tests.clusters import Cluster
from tests.steps import Steps

pytestmark = pytest.mark.looptime

KINDS = 100
EACH = 10
"""Objects of each kind that is removed."""

COST = 20e-6
"""Seconds that one object takes on the clock of these tests."""


def kind(number: int) -> Resource[PartialObject]:
    return Resource(
        "example.com", "v1", f"kind{number}s", f"Kind{number}", PartialObject
    )


def object_of(name: str, *owners: OwnerReference) -> PartialObject:
    return PartialObject(
        metadata=PartialMetadata(
            name=name, namespace="n", uid=name, owner_references=owners or None
        )
    )


def fill(graph: Graph, others: int) -> None:
    """Add the objects of all kinds, each with a dependent or none, and others."""
    for number in range(others):
        graph.seen(CONFIG_MAPS, None, object_of(f"other-{number}"))
    for number in range(KINDS):
        resource = kind(number)
        for index in range(EACH):
            name = f"{number}-{index}"
            graph.seen(resource, None, object_of(name))
            if index % 2:
                owner = OwnerReference(resource.api_version, resource.kind, name, name)
                dependent = object_of(f"of-{name}", owner)
                graph.seen(CONFIG_MAPS, None, dependent)


def steps_of_removal(others: int) -> int:
    """Return the steps in which a graph forgets all kinds."""
    graph = Graph(lambda _: None, lambda _: None, lambda _, __: None)
    fill(graph, others)
    with Steps() as steps:
        for number in range(KINDS):
            for _ in graph.forget(kind(number)):
                pass
            graph.forget_kind(kind(number))
    assert len(graph.nodes) == others + KINDS * EACH
    return steps.number


def test_the_removal_of_kinds_looks_at_no_objects_of_other_kinds() -> None:
    """A hundred kinds with ten objects each, among some or many others."""
    assert steps_of_removal(others=5000) == steps_of_removal(others=0)


class Work:
    """A clock that only calls of a graph advance, and the turns that it measures."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.turns: list[float] = []

    def clock(self) -> float:
        return self.seconds

    def count(self, _: object) -> None:
        self.seconds += COST


def discovery_of(resources: Iterable[Resource[Any]]) -> Discovery:
    verbs = frozenset(("delete", "list", "watch"))
    served = [
        ServedResource(
            each.group,
            each.version,
            each.plural,
            each.kind,
            namespaced=True,
            verbs=verbs,
        )
        for each in resources
    ]
    return Discovery(tuple(served), {})


async def test_the_removal_of_many_kinds_takes_many_turns(cluster: Cluster) -> None:
    """Each removed object takes 20 µs here, and all of them four turns' time."""
    work = Work()
    graph = Graph(work.count, work.count, lambda _, __: None, work.count)
    fill(graph, others=100)
    factory = InformerFactory(
        cluster.client,
        min_resync_period=0,
        rng=random.Random(1),
        logger=silent_logger(),
        metrics=InformerCollectors(CollectorRegistry(), "test"),
    )
    turns = Turns(clock=work.clock, on_turn=work.turns.append)
    monitors = Monitors(
        ControllerInformers(factory),
        graph,
        silent_logger(),
        lambda: None,
        turns,
        GraphChanges(QueueCollectors(CollectorRegistry()), cluster.clock),
    )
    kinds = [kind(number) for number in range(KINDS)]
    await monitors.adjust(discovery_of([CONFIG_MAPS, *kinds]), 0.0)
    assert len(factory.all()) == KINDS + 1
    for now in (10.0, 100.0):
        work.seconds = 0.0
        await monitors.adjust(discovery_of([CONFIG_MAPS]), now)
    assert [each.resource.plural for each in factory.all()] == ["configmaps"]
    # The dependents are still there, and their owners as virtual nodes.
    assert len(graph.nodes) == 100 + KINDS * EACH
    assert work.seconds == pytest.approx(KINDS * EACH * COST)
    assert len(work.turns) >= KINDS * EACH * COST / BUDGET - 1
    assert max(work.turns) <= BUDGET + EACH * COST
