"""Objects have a finalizer until they are deleted and unused."""

import json
from typing import Any

import pytest

from controller_manager.api.core.v1 import CONFIG_MAPS, ConfigMap
from controller_manager.api.meta import ObjectMeta, PartialMetadata, PartialObject
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import Conflict, NotFound
from controller_manager.client.rest.transport import Request, Response
from controller_manager.control.protection import Protection
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster, RecordingTransport

DELETED = "2026-01-01T00:00:00Z"
FINALIZER = "example.com/protection"


def thing(**metadata: Any) -> PartialObject:
    """Return an object with this metadata."""
    return PartialObject(metadata=PartialMetadata(name="thing", **metadata))


@pytest.mark.parametrize(
    ("changed", "settled", "finalizers"),
    [
        (thing(), False, (FINALIZER,)),
        (thing(finalizers=("a",)), False, ("a", FINALIZER)),
        (thing(finalizers=(FINALIZER,)), True, (FINALIZER,)),
        (thing(finalizers=("a", FINALIZER), deletion_timestamp=DELETED), False, ("a",)),
        (thing(finalizers=(FINALIZER,), deletion_timestamp=DELETED), False, ()),
        (thing(finalizers=("a",), deletion_timestamp=DELETED), True, ("a",)),
        (thing(deletion_timestamp=DELETED), True, ()),
    ],
)
def test_an_object_has_the_finalizer_until_it_is_deleted(
    changed: PartialObject, finalizers: tuple[str, ...], *, settled: bool
) -> None:
    """Other finalizers stay, in their order."""
    protection = Protection(FINALIZER)
    assert protection.is_settled(changed) is settled
    assert protection.finalizers_of(changed) == finalizers


@pytest.mark.parametrize(
    ("changed", "is_held"),
    [
        (thing(finalizers=(FINALIZER,)), False),
        (thing(finalizers=("a", FINALIZER), deletion_timestamp=DELETED), True),
        (thing(finalizers=("a",), deletion_timestamp=DELETED), False),
    ],
)
def test_a_deleted_object_with_the_finalizer_is_held(
    changed: PartialObject, *, is_held: bool
) -> None:
    """Only such an object is looked at when something stops using it."""
    assert Protection(FINALIZER).holds(changed) is is_held


def test_deleted_objects_with_the_finalizer_are_found_by_their_namespace() -> None:
    """A cluster-scoped object has the namespace ""."""
    waiting = Protection(FINALIZER).waiting
    held = thing(namespace="shop", finalizers=(FINALIZER,), deletion_timestamp=DELETED)
    present = thing(namespace="shop", finalizers=(FINALIZER,))
    assert [*waiting.function(held)] == ["shop"]
    assert [*waiting.function(present)] == []
    unscoped = thing(finalizers=(FINALIZER,), deletion_timestamp=DELETED)
    assert [*waiting.function(unscoped)] == [""]
    assert waiting.has_same_values is not None
    assert waiting.has_same_values(present, thing(namespace="shop"))
    assert not waiting.has_same_values(present, held)


async def stored(cluster: Cluster, **metadata: Any) -> ConfigMap:
    """Create a config map; return it as stored."""
    cluster.add(
        "ConfigMap", "map", metadata={"name": "map", **metadata}, data={"a": ""}
    )
    return await cluster.client.get(CONFIG_MAPS, "default", "map")


@pytest.mark.looptime
async def test_an_object_gets_its_finalizer_and_keeps_the_rest(
    cluster: Cluster,
) -> None:
    """All other fields are sent back as they came."""
    before = await stored(cluster, labels={"a": "b"}, finalizers=["example.com/hold"])
    await Protection(FINALIZER).settle(cluster.client, CONFIG_MAPS, before)
    after = await cluster.client.get(CONFIG_MAPS, "default", "map")
    assert after.metadata.finalizers == ("example.com/hold", FINALIZER)
    assert (after.metadata.labels, after.data) == ({"a": "b"}, {"a": ""})


@pytest.mark.looptime
async def test_an_object_that_has_changed_is_left_alone(cluster: Cluster) -> None:
    """Something may use it by now."""
    before = await stored(cluster)
    patch = {"data": {"a": "changed"}}
    await cluster.client.patch(CONFIG_MAPS, "default", "map", patch)
    with pytest.raises(Conflict):
        await Protection(FINALIZER).settle(cluster.client, CONFIG_MAPS, before)


@pytest.mark.looptime
async def test_an_object_that_is_gone_needs_nothing(cluster: Cluster) -> None:
    """Its deletion is what the finalizer has waited for."""
    before = await stored(cluster)
    await cluster.client.delete(CONFIG_MAPS, "default", "map")
    await Protection(FINALIZER).settle(cluster.client, CONFIG_MAPS, before)
    assert (await cluster.client.list_page(CONFIG_MAPS, "default")).items == []


class Nowhere(RecordingTransport):
    """Knows no path, like a proxy that is set up wrong."""

    async def request(self, request: Request) -> Response:
        assert request.method == "PUT"
        status = {"status": "Failure", "code": 404, "reason": "NotFound"}
        return Response(404, {}, json.dumps(status).encode())


@pytest.mark.looptime
async def test_a_path_that_is_not_found_is_no_object_that_is_gone(
    cluster: Cluster,
) -> None:
    """The object may still stand; the caller tries again."""
    transport = Nowhere(InMemoryTransport(cluster.server, TOKEN))
    client = Client(transport, cluster.clock)
    lost = ConfigMap(metadata=ObjectMeta(name="map", namespace="default"))
    with pytest.raises(NotFound):
        await Protection(FINALIZER).settle(client, CONFIG_MAPS, lost)
