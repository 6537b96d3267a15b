"""core/v1: persistent volume claims."""

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from msgspec import Raw, field
from msgspec.json import Decoder
from msgspec.structs import force_setattr

from controller_manager.api.meta import (
    APIStruct,
    CompleteObject,
    Resource,
    annotations_of,
)
from controller_manager.api.selectors import LabelSelector

from .resources import ResourceRequirements

BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""The annotation that named the class before there was a field; it still wins."""

PENDING: Final = "Pending"
BOUND: Final = "Bound"
LOST: Final = "Lost"

STORAGE: Final = "storage"
"""The resource that claims request and volumes have."""


class ClaimSpec(APIStruct, frozen=True):
    """The fields of a claim's spec that controllers read."""

    access_modes: tuple[str, ...] | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements | None = None
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ModifyVolumeStatus(APIStruct, frozen=True):
    """The volume attributes class that a volume is being changed to."""

    target_volume_attributes_class_name: str = ""
    status: str = ""


class ClaimCondition(APIStruct, frozen=True):
    """One condition of a claim."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None


class ClaimStatus(APIStruct, frozen=True):
    """The fields of a claim's status that controllers read."""

    phase: str = ""
    access_modes: tuple[str, ...] | None = None
    capacity: dict[str, str] | None = None
    conditions: tuple[ClaimCondition, ...] | None = None
    allocated_resources: dict[str, str] | None = None
    allocated_resource_statuses: dict[str, str] | None = None
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


_SPEC: Final = Decoder(ClaimSpec)
_STATUS: Final = Decoder(ClaimStatus)


# A struct with a __dict__ is tracked by the garbage collector.
class PersistentVolumeClaim(CompleteObject, frozen=True, dict=True, gc=True):
    """A claim to storage, complete: a PUT sends back every field that came.

    Spec and status are kept as bytes; `spec` and `status` are views of them, decoded
    when they are first read.
    """

    raw_spec: Raw = field(default=Raw(b"{}"), name="spec")
    raw_status: Raw = field(default=Raw(b"{}"), name="status")

    def __post_init__(self) -> None:
        """Copy the bytes out of the message that they were decoded from."""
        force_setattr(self, "raw_spec", self.raw_spec.copy())
        force_setattr(self, "raw_status", self.raw_status.copy())

    @cached_property
    def spec(self) -> ClaimSpec:
        """The fields of the spec that controllers read."""
        return _SPEC.decode(self.raw_spec)

    @cached_property
    def status(self) -> ClaimStatus:
        """The fields of the status that controllers read."""
        return _STATUS.decode(self.raw_status)


CLAIMS: Resource[PersistentVolumeClaim] = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", PersistentVolumeClaim
)
"""The claims: complete, in the cache as well, because some controllers PUT them."""


def storage_class_of(claim: PersistentVolumeClaim) -> str:
    """Return the name of a claim's storage class (GetPersistentVolumeClaimClass).

    "" means that the claim asks for a volume without a class, or for nothing.
    """
    annotation = annotations_of(claim.metadata).get(BETA_STORAGE_CLASS)
    return annotation if annotation is not None else claim.spec.storage_class_name or ""


def requested_storage(claim: PersistentVolumeClaim) -> str | None:
    """Return the amount of storage that a claim requests, `None` for none."""
    resources = claim.spec.resources
    requests: Mapping[str, str] | None = resources.requests if resources else None
    return None if requests is None else requests.get(STORAGE)


def attributes_classes_of(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    """Return the wanted, current and target volume attributes classes, each once."""
    status = claim.status
    target = status.modify_volume_status
    names = (
        claim.spec.volume_attributes_class_name,
        status.current_volume_attributes_class_name,
        target and target.target_volume_attributes_class_name,
    )
    return tuple(dict.fromkeys(name for name in names if name))
