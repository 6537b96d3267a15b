"""apiextensions.k8s.io/v1: definitions of custom resources, and stored versions."""

from controller_manager.api.meta import (
    APIStruct,
    Condition,
    PartialMetadata,
    Projection,
    Resource,
)


class CustomResourceDefinitionVersion(APIStruct, frozen=True):
    """A version of a custom resource; objects are stored in one of them."""

    name: str = ""
    storage: bool = False


class CustomResourceDefinitionSpec(APIStruct, frozen=True):
    """The versions of a custom resource."""

    versions: tuple[CustomResourceDefinitionVersion, ...] | None = None


class CustomResourceDefinitionStatus(APIStruct, frozen=True):
    """The versions in which objects may be stored."""

    conditions: tuple[Condition, ...] | None = None
    stored_versions: tuple[str, ...] | None = None


class CustomResourceDefinitionMeta(PartialMetadata, frozen=True):
    """The metadata of a definition, with the number of its spec."""

    generation: int = 0


class CustomResourceDefinition(Projection, frozen=True):
    """A definition of a custom resource."""

    metadata: CustomResourceDefinitionMeta = CustomResourceDefinitionMeta()
    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()


CUSTOM_RESOURCE_DEFINITIONS: Resource[CustomResourceDefinition] = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    CustomResourceDefinition,
    namespaced=False,
)
