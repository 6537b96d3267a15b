"""Keys wait for the caches when an owner was read from the API server."""

import pytest

from controller_manager.api.apps.v1 import REPLICASETS, ReplicaSet
from controller_manager.api.core.v1 import PODS
from controller_manager.api.selectors import Selector
from controller_manager.client.rest.errors import NotFound
from controller_manager.control.expectations import OwnerReads
from controller_manager.informers.store import Lister, Store
from tests.clusters import Cluster
from tests.controllers.builders import replica_set_json, template
from tests.controllers.user import User

pytestmark = pytest.mark.looptime

SELECTOR = Selector(exact=(("app", "rs"),))


class Versions:
    """Records the versions that keys must wait for."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, str, str]] = []

    def record(self, key: str, resource: object, obj: ReplicaSet) -> None:
        plural = getattr(resource, "plural", "")
        self.recorded.append((key, plural, obj.metadata.resource_version))


@pytest.fixture(name="user")
def make_user(cluster: Cluster) -> User:
    return User(cluster)


@pytest.fixture(name="versions")
def make_versions() -> Versions:
    return Versions()


@pytest.fixture(name="store")
def make_store() -> Store[ReplicaSet]:
    return Store()


@pytest.fixture(name="reads")
def make_reads(
    cluster: Cluster, store: Store[ReplicaSet], versions: Versions
) -> OwnerReads[ReplicaSet]:
    return OwnerReads(
        cluster.client,
        REPLICASETS,
        Lister(store, REPLICASETS.kind),
        versions,  # type: ignore[arg-type]
    )


async def test_a_key_waits_for_its_owner_and_for_the_pods_that_it_selects(
    user: User, reads: OwnerReads[ReplicaSet], versions: Versions
) -> None:
    """Other pods of the namespace do not count."""
    owner: ReplicaSet = await user.create(REPLICASETS, replica_set_json())
    for name, app in (("mine", "rs"), ("other", "other")):
        body = {"metadata": {"name": name, "labels": {"app": app}}}
        await user.create(PODS, {**body, "spec": template()["spec"]})
    mine, _ = await user.pods()
    await reads.wait_for_all_caches(owner, SELECTOR)
    assert versions.recorded == [
        ("default/rs", "replicasets", owner.metadata.resource_version),
        ("default/rs", "pods", mine.metadata.resource_version),
    ]


async def test_an_owner_that_is_gone_is_known_until_the_cache_shows_it(
    user: User, reads: OwnerReads[ReplicaSet], store: Store[ReplicaSet]
) -> None:
    """A newer version in the cache means that it exists after all."""
    owner: ReplicaSet = await user.create(REPLICASETS, replica_set_json())
    store.put(owner)
    await reads.wait_for_cache(owner)
    assert not reads.is_known_gone(owner)
    await user.client.delete(REPLICASETS, "default", "rs")
    await reads.wait_for_cache(owner)
    assert reads.is_known_gone(owner)
    with pytest.raises(NotFound):
        await reads.wait_for_all_caches(owner, SELECTOR)
    reads.forget(owner)
    assert not reads.is_known_gone(owner)


async def test_a_namesake_of_an_owner_is_another_owner(
    user: User,
    reads: OwnerReads[ReplicaSet],
    store: Store[ReplicaSet],
    versions: Versions,
) -> None:
    """The key waits until the cache shows it."""
    owner: ReplicaSet = await user.create(REPLICASETS, replica_set_json())
    store.put(owner)
    await user.client.delete(REPLICASETS, "default", "rs")
    again: ReplicaSet = await user.create(REPLICASETS, replica_set_json())
    await reads.wait_for_cache(owner)
    assert reads.is_known_gone(owner)
    version = again.metadata.resource_version
    assert versions.recorded == [("default/rs", "replicasets", version)]
