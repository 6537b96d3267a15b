"""Resources: the URL path and the type of each kind of object."""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Generic, TypeVar

from .meta import KubeObject, PartialObject

ObjectT = TypeVar("ObjectT", bound=KubeObject)


_NO_PATH_SEGMENT: Final = re.compile(r"\.\.?|.*[/%].*", re.DOTALL)


class InvalidPathSegment(ValueError):
    """A name or namespace that would change the meaning of the URL path."""


def segment(name: str, what: str) -> str:
    """Return `name` if it may be one segment of a URL path; raise an error if not.

    Names come from objects that users write: an owner reference may name
    ``kube-system/services/https:ui:443/proxy/restart``. The rules are those of
    IsValidPathSegmentName (apimachinery pkg/api/validation/path/name.go).
    """
    if _NO_PATH_SEGMENT.fullmatch(name):
        msg = f"invalid {what} {name!r}: it may not be '.' or '..', nor have '/' or '%'"
        raise InvalidPathSegment(msg)
    return name


@dataclass(frozen=True, slots=True)
class Resource(Generic[ObjectT]):
    """A resource of the API and the type that its objects decode to.

    With `metadata_only`, requests ask the API server only for metadata
    (PartialObjectMetadata). The `field_selector` restricts which objects are listed
    and watched; empty means all.
    """

    group: str
    version: str
    plural: str
    kind: str
    type: type[ObjectT]
    namespaced: bool = True
    metadata_only: bool = False
    field_selector: str = ""

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """``deployments.apps``, or ``pods`` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def may_select(self, obj: KubeObject) -> bool:
        """Tell whether a watch with this `field_selector` may show `obj`.

        It can evaluate only the selectors ``metadata.name=NAME`` and ``type=TYPE``. For
        other selectors the answer is no.
        """
        field, _, wanted = self.field_selector.partition("=")
        match field:
            case "":
                return True
            case "metadata.name":
                return obj.metadata.name == wanted
            case "type":
                return getattr(obj, "type", None) == wanted
            case _:
                return False

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, object or subresource.

        Raises InvalidPathSegment if the namespace or name is not a path segment.
        """
        root = f"/apis/{self.group}" if self.group else "/api"
        parts = [root, self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", segment(namespace, "namespace")]
        parts.append(self.plural)
        if name:
            parts.append(segment(name, "name"))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


AnyResource = Resource[Any]


@cache
def metadata_of(resource: AnyResource) -> Resource[PartialObject]:
    """Return the resource of which requests ask only for the metadata of objects.

    For the answer to a write of which a controller reads at most the name, the uid and
    the version.
    """
    return replace(resource, type=PartialObject, metadata_only=True)
