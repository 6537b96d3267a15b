"""internal.apiserver.k8s.io/v1alpha1: versions in which API servers store objects."""

from msgspec import Raw, field
from msgspec.structs import force_setattr

from controller_manager.api.meta import APIStruct, CompleteObject, Condition, Resource


class ServerStorageVersion(APIStruct, frozen=True):
    """The versions in which one API server stores and reads a resource."""

    api_server_id: str = field(default="", name="apiServerID")
    encoding_version: str = ""
    decodable_versions: tuple[str, ...] | None = None
    served_versions: tuple[str, ...] | None = None


class StorageVersionStatus(APIStruct, frozen=True):
    """The versions of all API servers, and the common one if they agree."""

    storage_versions: tuple[ServerStorageVersion, ...] | None = None
    common_encoding_version: str | None = None
    conditions: tuple[Condition, ...] | None = None


class StorageVersion(CompleteObject, frozen=True):
    """The versions in which the API servers of a cluster store one resource."""

    spec: Raw = Raw(b"{}")
    status: StorageVersionStatus = StorageVersionStatus()

    def __post_init__(self) -> None:
        """Copy the bytes out of the message that they were decoded from."""
        force_setattr(self, "spec", self.spec.copy())


STORAGE_VERSIONS: Resource[StorageVersion] = Resource(
    "internal.apiserver.k8s.io",
    "v1alpha1",
    "storageversions",
    "StorageVersion",
    StorageVersion,
    namespaced=False,
)
