"""coordination.k8s.io/v1: leases."""

from controller_manager.api.meta import APIStruct, CompleteObject
from controller_manager.api.resource import Resource


class LeaseSpec(APIStruct, frozen=True):
    """The holder of the lease, and its duration in seconds after each renewal."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(CompleteObject, frozen=True):
    """A lease; the candidate that holds it is the leader."""

    spec: LeaseSpec = LeaseSpec()


LEASES: Resource[Lease] = Resource(
    "coordination.k8s.io", "v1", "leases", "Lease", Lease
)
