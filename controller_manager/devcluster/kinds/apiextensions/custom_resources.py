"""Custom resources: kinds that their definitions add and remove.

Their objects are stored as given: the schema of a definition neither validates
them nor sets defaults, and versions differ by their name alone (conversion
strategy None).
"""

from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.api.times import format_time
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.catalogue import Catalogue
from controller_manager.devcluster.server.deletion import Deletion
from controller_manager.devcluster.server.kind import (
    ALL_VERBS,
    SCALE,
    Kind,
    ScalePaths,
    Subresource,
    status_of,
)
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, age

JSON = dict[str, Any]

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


class CustomResourceStrategy(Strategy):
    """Stores objects as given; after its last object a definition can be removed."""

    counts_generations: ClassVar = True
    merges_strategically: ClassVar = False
    columns: ClassVar = (NAME, AGE)

    def after_request(self, objects: Objects, catalogue: Catalogue) -> None:
        """Remove definitions that are being deleted and have no objects any more."""
        sync_definitions(objects, catalogue)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), age(obj, now)]


_STRATEGY: Final = CustomResourceStrategy()


def sync_definitions(objects: Objects, catalogue: Catalogue) -> None:
    """Make the catalogue match the stored definitions.

    New definitions are established; those that are being deleted lose their objects.
    """
    kind = catalogue.of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    if kind is None:
        return  # this server has no kind CustomResourceDefinition
    for stored in objects.storage.collection(DEFINITIONS):
        definition = stored.obj
        if "deletionTimestamp" in definition["metadata"]:
            _finish(objects, kind, definition)
        elif not definition.get("status", {}).get("conditions"):
            _establish(objects, kind, definition)
    _serve(objects, catalogue)


def _establish(objects: Objects, kind: Kind, definition: JSON) -> None:
    now = format_time(objects.clock.now())
    spec = definition["spec"]
    status = {
        "conditions": [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition(
                "Established",
                "InitialNamesAccepted",
                "the initial names have been accepted",
                now,
            ),
        ],
        "acceptedNames": spec["names"],
        "storedVersions": [
            each["name"] for each in spec["versions"] if each.get("storage")
        ],
    }
    name = definition["metadata"]["name"]
    objects.update(kind, "", name, {**definition, "status": status}, "status")


def _finish(objects: Objects, kind: Kind, definition: JSON) -> None:
    """Delete all objects of a definition; remove its finalizer when none is left."""
    collection = objects.storage.collection(definition["metadata"]["name"])
    for each in _kinds(definition)[:1]:
        for stored in collection:
            metadata = stored.obj["metadata"]
            if "deletionTimestamp" not in metadata:
                namespace = metadata.get("namespace", "")
                objects.delete(each, namespace, metadata["name"], Deletion())
    if len(collection):
        return
    metadata = dict(definition["metadata"])
    left = [each for each in metadata.get("finalizers", []) if each != CLEANUP]
    metadata["finalizers"] = left
    objects.update(kind, "", metadata["name"], {**definition, "metadata": metadata})


def _serve(objects: Objects, catalogue: Catalogue) -> None:
    wanted = {
        kind
        for stored in objects.storage.collection(DEFINITIONS)
        for kind in _kinds(stored.obj)
    }
    served = {kind for kind in catalogue.all() if kind.is_custom}
    for kind in served - wanted:
        catalogue.remove(kind)
    for kind in sorted(wanted - served, key=lambda each: each.api_version):
        catalogue.add(kind)


def _condition(kind: str, reason: str, message: str, now: str) -> JSON:
    return {
        "type": kind,
        "status": "True",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _kinds(definition: JSON) -> list[Kind]:
    """Return the kinds of a definition: one for each served version."""
    spec = definition["spec"]
    names = spec["names"]
    # No new objects while the definition is deleted, or the deletion would never end.
    going = "deletionTimestamp" in definition["metadata"]
    verbs = tuple(verb for verb in ALL_VERBS if not going or verb != "create")
    return [
        Kind(
            spec["group"],
            version["name"],
            names["kind"],
            names["plural"],
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames", ())),
            categories=tuple(names.get("categories", ())),
            subresources=_subresources(names["kind"], version),
            scale_paths=_scale_paths(version),
            verbs=verbs,
            strategy=_STRATEGY,
            is_custom=True,
            singular_name=names["singular"],
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def _subresources(kind: str, version: JSON) -> tuple[Subresource, ...]:
    declared = version.get("subresources") or {}
    known = {"status": status_of(kind), "scale": SCALE}
    return tuple(each for name, each in known.items() if name in declared)


def _scale_paths(version: JSON) -> ScalePaths:
    """Return the paths of a definition, written like ``.spec.replicas``."""
    scale = (version.get("subresources") or {}).get("scale") or {}
    paths = (
        tuple(filter(None, scale.get(name, "").split(".")))
        for name in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    )
    return ScalePaths(*paths)
