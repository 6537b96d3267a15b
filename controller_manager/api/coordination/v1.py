"""coordination.k8s.io/v1: leases."""

from typing import Final

from controller_manager.api.meta import (
    APIStruct,
    CompleteObject,
    PartialObject,
    Projection,
    Resource,
)


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


class RenewalSpec(APIStruct, frozen=True):
    """The time of the last renewal of a lease, by the clock of its holder."""

    renew_time: str | None = None


class LeaseRenewal(Projection, frozen=True):
    """A projection of a lease: kubelets renew theirs every ten seconds."""

    spec: RenewalSpec = RenewalSpec()


LEASE_RENEWALS: Resource[LeaseRenewal] = Resource(
    "coordination.k8s.io", "v1", "leases", "Lease", LeaseRenewal
)


API_SERVER: Final = "kube-apiserver"
"""The value of the label `IDENTITY` of a lease that an API server holds."""

IDENTITY: Final = "apiserver.kubernetes.io/identity"

SYSTEM_LEASES: Resource[PartialObject] = Resource(
    "coordination.k8s.io",
    "v1",
    "leases",
    "Lease",
    PartialObject,
    metadata_only=True,
    field_selector="metadata.namespace=kube-system",
)
"""The leases of the control plane, of which only the metadata is cached."""
