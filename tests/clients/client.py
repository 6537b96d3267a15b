"""The operations that all Python clients have, in the words of the scenarios."""

from collections.abc import Callable
from typing import Any, Protocol

JSON = dict[str, Any]


class Kind(tuple[str, str]):
    """A kind: its apiVersion and its name."""

    __slots__ = ()


CONFIG_MAP = Kind(("v1", "ConfigMap"))
CONTROLLER = Kind(("v1", "ReplicationController"))
DEPLOYMENT = Kind(("apps/v1", "Deployment"))
NODE = Kind(("v1", "Node"))
WIDGET = Kind(("example.com/v1", "Widget"))

MERGE, STRATEGIC, JSON_PATCH, APPLY = "merge", "strategic", "json", "apply"
CONTENT_TYPES = {
    MERGE: "application/merge-patch+json",
    STRATEGIC: "application/strategic-merge-patch+json",
    JSON_PATCH: "application/json-patch+json",
    APPLY: "application/apply-patch+yaml",
}


class NotInThisClientError(Exception):
    """The client library has no way to do this."""


class Client(Protocol):
    """One client library; objects are plain JSON.

    A method raises what the library raises, or NotInThisClientError.
    """

    namespace: str
    """The namespace of all objects that have one."""

    def version(self) -> str: ...

    def create(self, obj: JSON) -> JSON:
        """Create an object."""
        ...

    def get(self, kind: Kind, name: str) -> JSON:
        """Read an object."""
        ...

    def replace(self, obj: JSON) -> JSON:
        """Write a whole object."""
        ...

    def patch(
        self, kind: Kind, name: str, how: str, patch: Any, subresource: str = ""
    ) -> JSON: ...

    def scale(self, kind: Kind, name: str, replicas: int) -> int: ...

    def select(self, kind: Kind, labels: str = "", fields: str = "") -> list[JSON]: ...

    def pages(self, kind: Kind, limit: int) -> list[str]:
        """List objects in pages; return the names in all of them."""
        ...

    def watch(self, kind: Kind, version: str, count: int) -> list[tuple[str, str]]:
        """Return type and name of the next events after a version."""
        ...

    def delete(self, kind: Kind, name: str) -> None: ...

    def delete_all(self, kind: Kind) -> None: ...

    def refusal(self, call: Callable[[], Any]) -> tuple[int, str]:
        """Return code and reason of the refusal that a call must get."""
        ...

    def close(self) -> None: ...
