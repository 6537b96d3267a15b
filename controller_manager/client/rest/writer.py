"""The verbs that write: create, update, patch, apply and delete.

controller-runtime: client.Writer.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from controller_manager.api.autoscaling.v1 import Scale
from controller_manager.api.meta import (
    AnyResource,
    CompleteObject,
    KubeObject,
    PartialObject,
    Resource,
    metadata_of,
)

from .options import DeleteOptions, PatchType
from .request import LIST_TIMEOUT, RESTClient, namespace_path, object_path
from .serializer import APPLY_PATCH, decode, encode, headers_of, require_complete
from .transport import LARGEST_LIST, Response

ObjectT = TypeVar("ObjectT", bound=KubeObject)
CompleteT = TypeVar("CompleteT", bound=CompleteObject)

WriteHook = Callable[[AnyResource, KubeObject], None]
"""Called after each create, update and patch, with the object as stored."""


def ignore_write(resource: AnyResource, obj: KubeObject) -> None:
    """Do nothing after a write."""


class Writer:
    """Writes objects of any resource; see `Client`."""

    def __init__(self, rest: RESTClient, on_write: WriteHook = ignore_write) -> None:
        self._rest = rest
        self._on_write = on_write

    async def create(self, resource: Resource[CompleteT], obj: CompleteT) -> CompleteT:
        """Create `obj` in its namespace; return it as stored.

        Raises TypeError for a projection; see `update`.
        """
        body = encode(resource, obj)
        path = namespace_path(resource, obj.metadata.namespace)
        answer = await self._rest.write("POST", path, body)
        return self._stored(resource, answer)

    async def try_create(
        self, resource: Resource[CompleteT], obj: CompleteT
    ) -> CompleteT:
        """Return `obj` as `create` would store it, after admission; store nothing."""
        body = encode(resource, obj)
        path = namespace_path(resource, obj.metadata.namespace)
        query = (("dryRun", "All"),)
        answer = await self._rest.write("POST", path, body, query=query)
        return decode(resource.type, answer)

    async def create_for_metadata(
        self, resource: Resource[CompleteT], obj: CompleteT
    ) -> PartialObject:
        """Create `obj` as `create` does, but ask only for the metadata as stored."""
        body = encode(resource, obj)
        return await self.create_json(
            metadata_of(resource), obj.metadata.namespace, body
        )

    async def create_json(
        self, resource: Resource[ObjectT], namespace: str, body: bytes
    ) -> ObjectT:
        """Create the object that `body` holds as JSON; return it as stored."""
        path = namespace_path(resource, namespace)
        answer = await self._rest.write(
            "POST", path, body, headers=headers_of(resource)
        )
        return self._stored(resource, answer)

    async def create_subresource(
        self,
        resource: AnyResource,
        namespace: str,
        name: str,
        subresource: str,
        body: CompleteT,
    ) -> CompleteT:
        """Post `body` to a subresource; return the answer, of the same type."""
        require_complete(body)
        path = object_path(resource, namespace, name, subresource)
        answer = await self._rest.write("POST", path, msgspec.json.encode(body))
        return decode(type(body), answer)

    async def update(
        self, resource: Resource[CompleteT], obj: CompleteT, subresource: str = ""
    ) -> CompleteT:
        """Replace an object (or its ``status``); return it as stored.

        Raises Conflict if the stored object has another resource version than `obj`.
        Raises TypeError for a projection, before anything is sent: the server would
        delete the fields that a projection lacks.
        """
        body = encode(resource, obj)
        return await self._replace(resource, obj, body, subresource)

    async def update_for_metadata(
        self, resource: Resource[CompleteT], obj: CompleteT, subresource: str = ""
    ) -> PartialObject:
        """Replace `obj` as `update` does, but ask only for the metadata as stored."""
        body = encode(resource, obj)
        return await self._replace(metadata_of(resource), obj, body, subresource)

    async def _replace(
        self,
        resource: Resource[ObjectT],
        obj: CompleteObject,
        body: bytes,
        subresource: str,
    ) -> ObjectT:
        metadata = obj.metadata
        path = object_path(resource, metadata.namespace, metadata.name, subresource)
        answer = await self._rest.write("PUT", path, body, headers=headers_of(resource))
        return self._stored(resource, answer)

    async def update_json(
        self, resource: Resource[ObjectT], obj: Mapping[str, Any]
    ) -> ObjectT:
        """Replace an object with an edited one that `get_json` returned."""
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        path = object_path(resource, namespace, name)
        body = msgspec.json.encode(obj)
        answer = await self._rest.write("PUT", path, body, headers=headers_of(resource))
        return self._stored(resource, answer)

    async def patch(
        self,
        resource: Resource[ObjectT],
        namespace: str,
        name: str,
        patch: Any,  # noqa: ANN401 - any JSON
        patch_type: PatchType = PatchType.STRATEGIC,
        subresource: str = "",
    ) -> ObjectT:
        """Change some fields; return the object as stored.

        A resourceVersion or uid in the patch's metadata is a precondition.
        """
        path = object_path(resource, namespace, name, subresource)
        headers = {**headers_of(resource), "content-type": patch_type}
        body = msgspec.json.encode(patch)
        answer = await self._rest.write("PATCH", path, body, headers=headers)
        return self._stored(resource, answer)

    async def apply(
        self,
        resource: Resource[ObjectT],
        name: str,
        config: Mapping[str, Any],
        field_manager: str,
        subresource: str = "",
        namespace: str = "",
    ) -> ObjectT:
        """Apply a configuration of an object; return it as stored.

        `namespace` is empty for a cluster-scoped object.

        It takes fields from other managers (server-side apply with force). Fields that
        `field_manager` applied before, and that `config` lacks, are removed unless
        somebody else owns them. A uid in the configuration's metadata is a
        precondition; without it an object that is gone is created again.
        """
        path = object_path(resource, namespace, name, subresource)
        named = {**config.get("metadata", {}), "name": name}
        if namespace:
            named["namespace"] = namespace
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        body = msgspec.json.encode({**head, **config, "metadata": named})
        query = (("fieldManager", field_manager), ("force", "true"))
        headers = {**headers_of(resource), "content-type": APPLY_PATCH}
        answer = await self._rest.write(
            "PATCH", path, body, headers=headers, query=query
        )
        return self._stored(resource, answer)

    async def rewrite(
        self, resource: Resource[ObjectT], obj: ObjectT, field_manager: str
    ) -> ObjectT:
        """Have an object stored again, unchanged, in today's version and encoding.

        It applies no field at all. Raises Conflict if the object is not the same any
        more as `obj`.
        """
        metadata = obj.metadata
        path = object_path(resource, metadata.namespace, metadata.name)
        same = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        answer = await self._rest.write(
            "PATCH",
            path,
            msgspec.json.encode({**head, "metadata": same}),
            headers={**headers_of(resource), "content-type": APPLY_PATCH},
            query=(("fieldManager", field_manager),),
        )
        return self._stored(resource, answer)

    def _stored(self, resource: Resource[ObjectT], answer: Response) -> ObjectT:
        """Decode the object in the answer to a write, and call the write hook."""
        stored = decode(resource.type, answer)
        self._on_write(resource, stored)
        return stored

    async def delete(
        self,
        resource: AnyResource,
        namespace: str,
        name: str,
        options: DeleteOptions | None = None,
    ) -> None:
        """Delete an object; it stays until its finalizers are removed."""
        path = object_path(resource, namespace, name)
        body = (options or DeleteOptions()).encode()
        await self._rest.write("DELETE", path, body)

    async def delete_collection(
        self,
        resource: AnyResource,
        namespace: str,
        options: DeleteOptions | None = None,
    ) -> None:
        """Delete all objects of a resource in a namespace."""
        path = namespace_path(resource, namespace)
        body = (options or DeleteOptions()).encode()
        # The answer has all the objects.
        await self._rest.write(
            "DELETE", path, body, timeout=LIST_TIMEOUT, largest=LARGEST_LIST
        )

    async def update_scale(
        self, resource: AnyResource, namespace: str, name: str, replicas: int
    ) -> Scale:
        """Set the desired replicas through the scale subresource."""
        path = object_path(resource, namespace, name, "scale")
        headers = {"accept": "application/json", "content-type": PatchType.MERGE}
        body = msgspec.json.encode({"spec": {"replicas": replicas}})
        return decode(
            Scale, await self._rest.write("PATCH", path, body, headers=headers)
        )

    async def replace_scale(self, resource: AnyResource, scale: Scale) -> Scale:
        """Replace a scale that `get_scale` returned; return it as stored.

        Raises Conflict if the object has changed since.
        """
        namespace, name = scale.metadata.namespace, scale.metadata.name
        path = object_path(resource, namespace, name, "scale")
        answer = await self._rest.write("PUT", path, msgspec.json.encode(scale))
        return decode(Scale, answer)
