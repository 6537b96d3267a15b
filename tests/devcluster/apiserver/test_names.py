"""Names of new objects: those that the server generates, and those in use."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


class _Suffixes(random.Random):
    """Chooses these suffixes, one after the other."""

    def __init__(self, suffixes: Iterable[str]) -> None:
        super().__init__(1)
        self._suffixes = iter(suffixes)

    def choices(
        self,
        population: Any,
        weights: Any = None,
        *,
        cum_weights: Any = None,
        k: int = 1,
    ) -> list[Any]:
        del population, weights, cum_weights, k
        return list(next(self._suffixes))


def maps(cluster: Cluster) -> Kind:
    kind = cluster.server.catalogue.find("", "v1", "configmaps")
    assert kind is not None
    return kind


def create(cluster: Cluster, suffixes: Iterable[str], **metadata: Any) -> JSON:
    """Create a config map while the server chooses these suffixes."""
    objects = cluster.server.objects.in_name_of("")
    objects._rng = _Suffixes(suffixes)
    return objects.create(maps(cluster), "default", {"metadata": metadata}).obj


async def test_a_generated_name_that_is_in_use_is_generated_again(
    cluster: Cluster,
) -> None:
    names = [
        create(cluster, suffixes, generateName="a-")["metadata"]["name"]
        for suffixes in (["bbbbb"], ["bbbbb", "ccccc"], ["bbbbb", "ccccc", "ddddd"])
    ]
    assert names == ["a-bbbbb", "a-ccccc", "a-ddddd"]


async def test_after_eight_names_in_use_a_create_is_refused(cluster: Cluster) -> None:
    """And the client is told to try again after a second."""
    create(cluster, ["bbbbb"], generateName="a-")
    with pytest.raises(Refusal) as caught:
        create(cluster, [*["bbbbb"] * 8, "ccccc"], generateName="a-")
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "a-bbbbb" already exists, the server was not able to '
        "generate a unique name for the object",
        "reason": "AlreadyExists",
        "details": {"name": "a-bbbbb", "kind": "configmaps", "retryAfterSeconds": 1},
        "code": 409,
    }


async def test_the_name_of_an_object_that_is_being_deleted_is_in_use(
    cluster: Cluster,
) -> None:
    objects = cluster.server.objects
    create(cluster, [], name="a", finalizers=["example.com/hold"])
    objects.delete(maps(cluster), "default", "a", Deletion())
    with pytest.raises(Refusal) as caught:
        create(cluster, [], name="a")
    assert str(caught.value) == (
        'object is being deleted: configmaps "a" already exists'
    )
