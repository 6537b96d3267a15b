"""CustomResourceDefinition: adds a kind to the API."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.registry.rest_storage import RESTStorage
from controller_manager.devcluster.server.rest.kind import Catalogue, Kind
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.storage import Storage

from .custom_resources import CLEANUP, sync_definitions
from .definition_validation import NEW_RULES, RULES, UPDATE_RULES


class CustomResourceDefinitionStrategy(Strategy):
    """Adds the defined kind to the catalogue, and removes it again."""

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in names and conversion."""
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        if kind := names.get("kind"):
            names.setdefault("singular", kind.lower())
            names.setdefault("listKind", f"{kind}List")
        conversion = spec.setdefault("conversion", {})
        conversion.setdefault("strategy", "None")
        client = (conversion.get("webhook") or {}).get("clientConfig") or {}
        if service := client.get("service"):
            service.setdefault("port", 443)

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Add the finalizer that holds deletion until no custom resource is left."""
        del storage
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if CLEANUP not in finalizers:
            finalizers.append(CLEANUP)
        obj["status"] = {"storedVersions": _storage_versions(obj)}

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Add the storage version to the stored versions."""
        del old
        status = new.get("status", {})
        stored = status.get("storedVersions") or []
        more = [each for each in _storage_versions(new) if each not in stored]
        if more:
            new["status"] = {**status, "storedVersions": [*stored, *more]}


def _storage_versions(definition: JSON) -> list[str]:
    versions = definition.get("spec", {}).get("versions") or []
    return [
        each.get("name", "")
        for each in versions
        if isinstance(each, dict) and each.get("storage")
    ]


KIND: Final = kind_of(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    CustomResourceDefinitionStrategy(
        counts_generations=True,
        rules=RULES,
        new_rules=NEW_RULES,
        update_rules=UPDATE_RULES,
    ),
)


def serve_definitions(_: Kind, objects: Objects, catalogue: Catalogue) -> None:
    """Serve the kinds that are defined now."""
    sync_definitions(objects, catalogue)


REST_STORAGE: Final = RESTStorage(KIND.resource, after_request=serve_definitions)
