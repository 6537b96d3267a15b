"""The target of a request: its resource, namespace, name and subresource."""

from typing import Final

from msgspec import Struct

_OF_NAMESPACES: Final = frozenset(("status", "finalize"))
_REVIEWS: Final = frozenset(("authentication.k8s.io", "authorization.k8s.io"))
_EVENTS: Final = frozenset((("", "events"), ("events.k8s.io", "events")))


class Collection(Struct, frozen=True):
    """The objects of one resource, in any version of its group."""

    group: str
    plural: str

    @property
    def group_resource(self) -> str:
        """``deployments.apps``, or ``pods`` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Key(Struct, frozen=True):
    """The identity of one object, in any version of its group."""

    collection: Collection
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return ``deployments.apps default/web``."""
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.collection.group_resource} {where}"


class Target(Struct, frozen=True):
    """The target of a request; `name` is empty for a collection."""

    collection: Collection
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """The identity of the object."""
        return Key(self.collection, self.namespace, self.name)

    @property
    def whole(self) -> "Target":
        """The object itself, without a subresource."""
        return Target(self.collection, self.version, self.namespace, self.name)

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        group = self.collection.group
        return f"{group}/{self.version}" if group else self.version

    @property
    def is_review(self) -> bool:
        """True for a request that asks by POST, and writes nothing."""
        return self.collection.group in _REVIEWS

    @property
    def is_event(self) -> bool:
        """True for the events that controllers record."""
        return (self.collection.group, self.collection.plural) in _EVENTS

    def object_path(self) -> str:
        """Return the path of the object itself, without its subresource."""
        return f"{self.collection_path()}/{self.name}"

    def collection_path(self) -> str:
        """Return the path of the objects of the namespace, or of the cluster."""
        group = self.collection.group
        root = f"/apis/{group}/{self.version}" if group else f"/api/{self.version}"
        where = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{root}{where}/{self.collection.plural}"


def find_target(path: str) -> Target | None:
    """Return the target of a path, `None` if the path belongs to no resource."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *rest] if rest:
            return _target("", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _target(group, version, rest)
    return None


def _target(group: str, version: str, rest: list[str]) -> Target:
    namespace = ""
    is_namespace = len(rest) < 3 or rest[2] in _OF_NAMESPACES  # noqa: PLR2004 - depth
    if rest[0] == "namespaces" and not is_namespace:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    return Target(
        Collection(group, rest[0]), version, namespace, name, "/".join(rest[2:])
    )
