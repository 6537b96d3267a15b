"""An object as the API server returned it, with all its fields."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON, Decoder, object_at, objects_at
from controller_manager.api.meta import AnyResource, KubeObject

from .cause import Reference

ObjectT = TypeVar("ObjectT", bound=KubeObject)


@cache
def _decoder(object_type: type[ObjectT]) -> Decoder[ObjectT]:
    return Decoder(object_type)


class Item(Struct, frozen=True):
    """An object, and the resource that it is of.

    The types of the API have only the fields that controllers read. An explanation
    needs others as well, such as the messages of containers; so it reads the JSON form.
    """

    resource: AnyResource
    json: JSON

    def typed(self, object_type: type[ObjectT]) -> ObjectT:
        """Return the object in the form that the controllers read."""
        decoder: Decoder[ObjectT] = _decoder(object_type)
        return decoder.decode(msgspec.json.encode(self.json))

    @property
    def metadata(self) -> JSON:
        """The metadata, as JSON."""
        return object_at(self.json, "metadata")

    @property
    def spec(self) -> JSON:
        """The spec, empty for none."""
        return object_at(self.json, "spec")

    @property
    def status(self) -> JSON:
        """The status, empty for none."""
        return object_at(self.json, "status")

    @property
    def name(self) -> str:
        """The name."""
        return text_at(self.metadata, "name")

    @property
    def namespace(self) -> str:
        """The namespace, empty for an object of the cluster."""
        return text_at(self.metadata, "namespace")

    @property
    def uid(self) -> str:
        """The uid."""
        return text_at(self.metadata, "uid")

    @property
    def created_at(self) -> str:
        """The time of the creation (RFC 3339)."""
        return text_at(self.metadata, "creationTimestamp")

    @property
    def deleted_at(self) -> str:
        """The time of the deletion (RFC 3339), empty unless it is being deleted."""
        return text_at(self.metadata, "deletionTimestamp")

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels, empty for none."""
        return object_at(self.metadata, "labels")

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations, empty for none."""
        return object_at(self.metadata, "annotations")

    @property
    def reference(self) -> Reference:
        """The reference to this object."""
        return Reference(
            self.resource.api_version, self.resource.kind, self.namespace, self.name
        )

    @property
    def controller(self) -> JSON | None:
        """The owner reference of the managing owner, `None` for none."""
        owners = objects_at(self.metadata, "ownerReferences")
        return next((each for each in owners if each.get("controller")), None)

    def is_controlled_by(self, owner: "Item") -> bool:
        """Tell whether another object is the managing owner."""
        found = self.controller
        return found is not None and found.get("uid") == owner.uid

    def conditions(self) -> Iterator[JSON]:
        """Yield the conditions of the status."""
        yield from objects_at(self.status, "conditions")

    def condition(self, name: str) -> JSON | None:
        """Return the condition of a type, `None` if there is none."""
        return next(
            (each for each in self.conditions() if each.get("type") == name), None
        )


def text_at(holder: JSON, name: str) -> str:
    """Return the text in a field, empty if there is none."""
    found = holder.get(name)
    return found if isinstance(found, str) else ""


def number_at(holder: JSON, name: str, default: int = 0) -> int:
    """Return the number in a field, `default` if there is none."""
    found: Any = holder.get(name)
    is_number = isinstance(found, int) and not isinstance(found, bool)
    return found if is_number else default
