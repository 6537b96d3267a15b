"""lightkube: its typed resources, and a generic one for the custom resource."""

from collections.abc import Callable
from typing import Any

from lightkube import ApiError, Client
from lightkube.core.exceptions import LoadResourceError
from lightkube.core.resource import NamespacedResource
from lightkube.core.resource_registry import resource_registry
from lightkube.generic_resource import load_in_cluster_generic_resources
from lightkube.types import PatchType
from msgspec import ValidationError

from tests.clients.client import (
    APPLY,
    JSON,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Kind,
    NotInThisClientError,
)

_TYPES = {
    APPLY: PatchType.APPLY,
    JSON_PATCH: PatchType.JSON,
    MERGE: PatchType.MERGE,
    STRATEGIC: PatchType.STRATEGIC,
}


class WithLightkube:
    """Does what the scenarios say."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._client: Any = Client(field_manager="tests")
        load_in_cluster_generic_resources(self._client)

    def version(self) -> str:
        raise NotInThisClientError

    def _resource(self, kind: Kind) -> Any:
        try:
            return resource_registry.load(*kind)
        except LoadResourceError:
            raise NotInThisClientError from None

    def _where(self, resource: Any) -> JSON:
        is_namespaced = issubclass(resource, NamespacedResource)
        return {"namespace": self.namespace} if is_namespaced else {}

    def create(self, obj: JSON) -> JSON:
        resource = self._resource(Kind((obj["apiVersion"], obj["kind"])))
        try:
            typed = resource.from_dict(obj)
        except ValidationError:  # its models demand more than the server
            raise NotInThisClientError from None
        body: JSON = self._client.create(typed).to_dict()
        return body

    def get(self, kind: Kind, name: str) -> JSON:
        resource = self._resource(kind)
        found = self._client.get(resource, name, **self._where(resource))
        body: JSON = found.to_dict()
        return body

    def replace(self, obj: JSON) -> JSON:
        resource = self._resource(Kind((obj["apiVersion"], obj["kind"])))
        body: JSON = self._client.replace(resource.from_dict(obj)).to_dict()
        return body

    def patch(
        self, kind: Kind, name: str, how: str, patch: Any, subresource: str = ""
    ) -> JSON:
        resource = self._resource(kind)
        part = resource.Status if subresource == "status" else resource
        found = self._client.patch(
            part, name, patch, patch_type=_TYPES[how], **self._where(resource)
        )
        body: JSON = found.to_dict()
        return body

    def scale(self, kind: Kind, name: str, replicas: int) -> int:
        resource = self._resource(kind)
        where = self._where(resource)
        scale = self._client.get(resource.Scale, name, **where)
        scale.spec.replicas = replicas
        done = self._client.replace(scale, name, **where)
        return int(done.spec.replicas)

    def select(self, kind: Kind, labels: str = "", fields: str = "") -> list[JSON]:
        resource = self._resource(kind)
        found = self._client.list(
            resource,
            labels=_as_selector(labels),
            fields=_as_selector(fields),
            **self._where(resource),
        )
        return [each.to_dict() for each in found]

    def pages(self, kind: Kind, limit: int) -> list[str]:
        found = self._client.list(
            self._resource(kind), namespace=self.namespace, chunk_size=limit
        )
        return [each.metadata.name for each in found]

    def watch(self, kind: Kind, version: str, count: int) -> list[tuple[str, str]]:
        found = []
        for event, obj in self._client.watch(
            self._resource(kind), namespace=self.namespace, resource_version=version
        ):
            found.append((event, obj.metadata.name))
            if len(found) == count:
                break
        return found

    def delete(self, kind: Kind, name: str) -> None:
        resource = self._resource(kind)
        self._client.delete(resource, name, **self._where(resource))

    def delete_all(self, kind: Kind) -> None:
        resource = self._resource(kind)
        self._client.deletecollection(resource, **self._where(resource))

    def refusal(self, call: Callable[[], Any]) -> tuple[int, str]:
        try:
            call()
        except ApiError as error:
            return error.status.code or 0, error.status.reason or ""
        return 0, "not refused"

    def close(self) -> None:
        self._client.close()


def _as_selector(text: str) -> dict[str, Any]:
    """Return a selector as lightkube takes it: values, or lists of values, by key."""
    if " in " in text:
        key, _, values = text.partition(" in ")
        return {key: values.strip("()").split(", ")}
    key, _, value = text.partition("=")
    return {key: value} if text else {}


def connect(namespace: str) -> WithLightkube:
    """Return the client."""
    return WithLightkube(namespace)
