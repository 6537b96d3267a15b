"""CustomResourceDefinition: adds a kind to the API."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.apiextensions.custom_resources import (
    CLEANUP,
    sync_definitions,
)
from controller_manager.devcluster.server.catalogue import Catalogue
from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.server.strategy import Strategy

JSON = dict[str, Any]


class CustomResourceDefinitionStrategy(Strategy):
    """Adds the defined kind to the catalogue, and removes it again."""

    counts_generations: ClassVar = True
    models: ClassVar = (
        "V1CustomResource",
        "V1ExternalDocumentation",
        "V1JSONSchemaProps",
        "V1SelectableField",
        "V1ValidationRule",
        "V1WebhookConversion",
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in names and conversion."""
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        if kind := names.get("kind"):
            names.setdefault("singular", kind.lower())
            names.setdefault("listKind", f"{kind}List")
        spec.setdefault("conversion", {}).setdefault("strategy", "None")

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Add the finalizer that holds deletion until no custom resource is left."""
        del storage
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if CLEANUP not in finalizers:
            finalizers.append(CLEANUP)

    def after_request(self, objects: Objects, catalogue: Catalogue) -> None:
        """Serve the kinds that are defined now."""
        sync_definitions(objects, catalogue)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check names, versions and scope."""
        spec = obj["spec"]
        causes = [
            required(f"spec.{name}")
            for name in ("group", "scope")
            if not spec.get(name)
        ]
        names = spec.get("names", {})
        causes += [
            required(f"spec.names.{name}")
            for name in ("plural", "kind")
            if not names.get(name)
        ]
        versions = spec.get("versions", [])
        causes += [
            required(f"spec.versions[{number}].name")
            for number, each in enumerate(versions)
            if not each.get("name")
        ]
        if not any(each.get("storage") for each in versions):
            why = "must have exactly one version marked as storage version"
            causes.append(invalid("spec.versions", shown(versions), why))
        wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
        if obj["metadata"].get("name") != wanted:
            why = 'must be spec.names.plural+"."+spec.group'
            value = shown(obj["metadata"].get("name", ""))
            causes.append(invalid("metadata.name", value, why))
        if spec.get("scope") not in ("", None, "Namespaced", "Cluster"):
            supported = ("Cluster", "Namespaced")
            causes.append(not_supported("spec.scope", shown(spec["scope"]), supported))
        return causes


KIND: Final = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
    model="V1CustomResourceDefinition",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=(status_of("CustomResourceDefinition"),),
    strategy=CustomResourceDefinitionStrategy(),
)
