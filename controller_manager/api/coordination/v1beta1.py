"""coordination.k8s.io/v1beta1: lease candidates."""

from controller_manager.api.meta import APIStruct, CompleteObject, Resource


class LeaseCandidateSpec(APIStruct, frozen=True):
    """The lease that a process is a candidate for, and its versions.

    An API server that holds an election writes `ping_time`; a candidate that is alive
    answers with a later `renew_time`.
    """

    lease_name: str = ""
    ping_time: str | None = None
    renew_time: str | None = None
    binary_version: str = ""
    emulation_version: str = ""
    strategy: str = ""


class LeaseCandidate(CompleteObject, frozen=True):
    """A process that an API server may elect as the holder of a lease."""

    spec: LeaseCandidateSpec = LeaseCandidateSpec()


LEASE_CANDIDATES: Resource[LeaseCandidate] = Resource(
    "coordination.k8s.io",
    "v1beta1",
    "leasecandidates",
    "LeaseCandidate",
    LeaseCandidate,
)
