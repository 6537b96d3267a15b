"""Adds the kinds of definitions to the catalogue, and removes them again.

Upstream: the controllers of apiextensions-apiserver. Here the server does their work
before it answers the request that changes a definition.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.kinds.apiregistration import (
    sync_custom_services,
)
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.registry.rest_storage import (
    CUSTOM_RESOURCES,
    RESTStorage,
)
from controller_manager.devcluster.server.rest.deletion import Deletion
from controller_manager.devcluster.server.rest.kind import Catalogue, Kind

from .custom_kinds import kinds_of, origin_of, stored_kind_of
from .custom_resource_strategy import CustomResourceStrategy, Origin
from .definition_status import is_established, is_settled, new_status, taken_names

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


def sync_definitions(objects: Objects, catalogue: Catalogue) -> None:
    """Make the catalogue match the stored definitions.

    It writes their statuses, and deletes the objects of definitions being deleted.
    """
    kind = catalogue.of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    if kind is None:
        return  # this server has no kind CustomResourceDefinition
    for definition in _definitions(objects):
        if "deletionTimestamp" in definition["metadata"]:
            _finish(objects, kind, _with_status(objects, kind, definition))
    # If a definition gives a name up, another one may wait for this name.
    for definition in _definitions(objects):
        _with_status(objects, kind, definition)
    _serve(objects, catalogue)
    sync_custom_services(objects, catalogue)


def _definitions(objects: Objects) -> list[JSON]:
    return [each.obj for each in objects.storage.collection(DEFINITIONS)]


def _with_status(objects: Objects, kind: Kind, definition: JSON) -> JSON:
    """Write the status that a definition should have; return the definition."""
    if is_settled(definition):
        return definition
    now = format_time(objects.clock.now())
    taken = taken_names(definition, _definitions(objects))
    status = new_status(definition, taken, now)
    if status == definition.get("status"):
        return definition
    name, changed = definition["metadata"]["name"], {**definition, "status": status}
    return objects.update(kind, "", name, changed, "status").obj


def _finish(objects: Objects, kind: Kind, definition: JSON) -> None:
    """Delete all objects of a definition; after the last, remove its finalizer."""
    collection = objects.storage.collection(definition["metadata"]["name"])
    custom = stored_kind_of(definition, objects.storage.version)
    for stored in collection:
        metadata = stored.obj["metadata"]
        if "deletionTimestamp" not in metadata:
            namespace = metadata.get("namespace", "")
            objects.delete(custom, namespace, metadata["name"], Deletion())
    if len(collection):
        return
    metadata = dict(definition["metadata"])
    left = [each for each in metadata.get("finalizers", []) if each != CLEANUP]
    if left == metadata.get("finalizers", []):
        return
    metadata["finalizers"] = left
    objects.update(kind, "", metadata["name"], {**definition, "metadata": metadata})


def _serve(objects: Objects, catalogue: Catalogue) -> None:
    """Serve the kinds of established definitions; kinds already served stay."""
    wanted = {
        origin_of(each): each for each in _definitions(objects) if is_established(each)
    }
    served: set[Origin] = set()
    for kind in catalogue.all():
        if not isinstance(kind.strategy, CustomResourceStrategy):
            continue
        if kind.strategy.origin in wanted:
            served.add(kind.strategy.origin)
        else:
            catalogue.remove(kind)
    new = [
        kind
        for origin, definition in wanted.items()
        if origin not in served
        for kind in kinds_of(definition, objects)
    ]
    for kind in sorted(new, key=lambda each: each.api_version):
        # A built-in kind has priority over a custom kind of the same name.
        if catalogue.find(kind.group, kind.version, kind.plural) is None:
            catalogue.add(kind)


def finish_definition(kind: Kind, objects: Objects, catalogue: Catalogue) -> None:
    """Remove the definition of a kind if it is being deleted, after its last object."""
    strategy = kind.strategy
    if isinstance(strategy, CustomResourceStrategy) and strategy.origin.is_going:
        sync_definitions(objects, catalogue)


REST_STORAGE: Final = RESTStorage(CUSTOM_RESOURCES, after_request=finish_definition)
