"""Custom resources: kinds that come and go with their definitions.

Objects of theirs are stored as they are: what a definition's schema says of them
is neither checked nor filled in, and versions differ by their name alone
(conversion strategy None).
"""

from typing import Any, Final

from controller_manager.api.times import format_time
from controller_manager.clock import Clock
from controller_manager.devcluster.kinds import ALL_VERBS, Catalogue, Kind, Subresource
from controller_manager.devcluster.objects import CLEANUP, Deletion, Objects
from controller_manager.devcluster.storage import Stored

JSON = dict[str, Any]

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"

_STATUS: Final = ("get", "patch", "update")


class CustomResources:
    """Makes the catalogue follow the definitions that are stored."""

    def __init__(self, catalogue: Catalogue, objects: Objects, clock: Clock) -> None:
        """Take the catalogue to change, and where definitions and objects are."""
        self._catalogue = catalogue
        self._objects = objects
        self._clock = clock

    def refresh(self) -> None:
        """Establish new definitions, and finish those that are being deleted."""
        definition_kind = self._catalogue.of(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition"
        )
        assert definition_kind is not None  # noqa: S101 - a row of the catalogue
        for stored in self._objects.storage.collection(DEFINITIONS):
            definition = stored.obj
            if "deletionTimestamp" in definition["metadata"]:
                self._finish(definition_kind, definition)
            elif not definition.get("status", {}).get("conditions"):
                self._establish(definition_kind, definition)
        self._serve()

    def _establish(self, kind: Kind, definition: JSON) -> None:
        now = format_time(self._clock.now())
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
        changed = {**definition, "status": status}
        self._objects.update(kind, "", name, changed, "status")

    def _finish(self, kind: Kind, definition: JSON) -> None:
        """Delete all objects of a definition; let it go once they are gone."""
        collection = self._objects.storage.collection(definition["metadata"]["name"])
        for each in _kinds(definition)[:1]:
            for stored in collection:
                metadata = stored.obj["metadata"]
                if "deletionTimestamp" not in metadata:
                    namespace = metadata.get("namespace", "")
                    self._objects.delete(each, namespace, metadata["name"], Deletion())
        if len(collection):
            return
        metadata = dict(definition["metadata"])
        left = [each for each in metadata.get("finalizers", []) if each != CLEANUP]
        metadata["finalizers"] = left
        changed = {**definition, "metadata": metadata}
        self._objects.update(kind, "", metadata["name"], changed)

    def _serve(self) -> None:
        wanted = {
            kind
            for stored in self._objects.storage.collection(DEFINITIONS)
            for kind in _kinds(stored.obj)
        }
        served = {kind for kind in self._catalogue.all() if kind.is_custom}
        for kind in served - wanted:
            self._catalogue.remove(kind)
        for kind in sorted(wanted - served, key=lambda each: each.api_version):
            self._catalogue.add(kind)


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
            subresources=_subresources(names["kind"], version),
            verbs=verbs,
            has_generation=True,
            is_custom=True,
            singular_name=names["singular"],
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def _subresources(kind: str, version: JSON) -> tuple[Subresource, ...]:
    if "status" in version.get("subresources", {}):
        return (Subresource("status", kind, _STATUS),)
    return ()


def in_version(kind: Kind, stored: Stored) -> Stored:
    """Return an object as the version that it is asked for in calls it."""
    if not kind.is_custom or stored.obj["apiVersion"] == kind.api_version:
        return stored
    head = {"kind": kind.kind, "apiVersion": kind.api_version}
    rest = {key: value for key, value in stored.obj.items() if key not in head}
    return Stored({**head, **rest}, stored.version)
