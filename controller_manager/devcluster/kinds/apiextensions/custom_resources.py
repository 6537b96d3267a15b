"""Custom resources: kinds that come and go with their definitions.

Objects of theirs are stored as they are: what a definition's schema says of them
is neither checked nor filled in, and versions differ by their name alone
(conversion strategy None).
"""

from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.api.times import format_time
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.catalogue import Catalogue
from controller_manager.devcluster.server.deletion import Deletion
from controller_manager.devcluster.server.kind import ALL_VERBS, Kind, status_of
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, age

JSON = dict[str, Any]

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


class CustomResourceStrategy(Strategy):
    """Stores what it is given; when the last object goes, so may its definition."""

    counts_generations: ClassVar = True
    merges_strategically: ClassVar = False
    columns: ClassVar = (NAME, AGE)

    def after_request(self, objects: Objects, catalogue: Catalogue) -> None:
        """Finish definitions whose objects are gone."""
        follow_definitions(objects, catalogue)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), age(obj, now)]


_STRATEGY: Final = CustomResourceStrategy()


def follow_definitions(objects: Objects, catalogue: Catalogue) -> None:
    """Make the catalogue follow the definitions that are stored.

    New ones are established; those that are being deleted lose their objects.
    """
    kind = catalogue.of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    if kind is None:
        return  # nobody can define anything
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
    """Delete all objects of a definition; let it go once they are gone."""
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
    """Return the kinds that a definition makes: one for each served version."""
    spec = definition["spec"]
    names = spec["names"]
    # Nothing new while it is going, or it would never be gone.
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
            subresources=(
                (status_of(names["kind"]),)
                if "status" in version.get("subresources", {})
                else ()
            ),
            verbs=verbs,
            strategy=_STRATEGY,
            is_custom=True,
            singular_name=names["singular"],
        )
        for version in spec["versions"]
        if version.get("served")
    ]
