"""The API server's part in a coordinated election, as a test plays it."""

from msgspec.structs import replace

from controller_manager.api.coordination.v1 import LEASES, Lease, LeaseSpec
from controller_manager.api.coordination.v1beta1 import LEASE_CANDIDATES, LeaseCandidate
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.scalars import format_micro_time
from controller_manager.client.rest.errors import NotFound
from controller_manager.options.gates import COORDINATED_ELECTION, FeatureGates
from tests.client.leadership.candidates import NAME
from tests.clusters import Cluster

NAMESPACE = "kube-system"
COORDINATED = FeatureGates({COORDINATED_ELECTION.name: True})
STRATEGY = "OldestEmulationVersion"
SECONDS = 5
"""The duration of a lease that an API server has written (1.36)."""


def now_of(cluster: Cluster) -> str:
    return format_micro_time(cluster.clock.now())


async def lease_of(cluster: Cluster) -> LeaseSpec | None:
    try:
        return (await cluster.client.get(LEASES, NAMESPACE, NAME)).spec
    except NotFound:
        return None


async def elect(cluster: Cluster, holder: str) -> None:
    spec = LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=SECONDS,
        renew_time=now_of(cluster),
        strategy=STRATEGY,
    )
    metadata = ObjectMeta(name=NAME, namespace=NAMESPACE)
    try:
        found = await cluster.client.get(LEASES, NAMESPACE, NAME)
    except NotFound:
        await cluster.client.create(LEASES, Lease(metadata=metadata, spec=spec))
        return
    await cluster.client.update(LEASES, replace(found, spec=spec))


async def prefer(cluster: Cluster, holder: str) -> None:
    patch = {"spec": {"preferredHolder": holder}}
    await cluster.client.patch(LEASES, NAMESPACE, NAME, patch)


async def ping(cluster: Cluster, name: str, time: str = "") -> None:
    patch = {"spec": {"pingTime": time or now_of(cluster)}}
    await cluster.client.patch(LEASE_CANDIDATES, NAMESPACE, name, patch)


async def candidates(cluster: Cluster) -> list[LeaseCandidate]:
    page = await cluster.client.list_page(LEASE_CANDIDATES, NAMESPACE)
    return list(page.items)
