"""The client: typed verbs over a transport (controller-runtime: client.Client)."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.autoscaling.v1 import Scale
from controller_manager.api.meta import (
    BUILT_IN_GROUPS,
    AnyResource,
    CompleteObject,
    KubeObject,
    PartialObject,
    Resource,
    metadata_of,
)
from controller_manager.clock import Clock
from controller_manager.options.config import WRITE_TIMEOUT
from controller_manager.version import NAME

from . import serializer
from .limits import RequestLimiter
from .options import (
    BUSY_IDLE_TIMEOUT,
    IDLE_TIMEOUT,
    DeleteOptions,
    ListOptions,
    PatchType,
    PropagationPolicy,
    WatchOptions,
)
from .request import (
    LIST_TIMEOUT,
    NoRequestMetrics,
    RequestMetrics,
    RESTClient,
    ServerClock,
    WarningHeaders,
    collection_path,
    namespace_path,
    object_path,
)
from .transport import LARGEST_LIST, Query, Request, Response, Transport

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient

# The types of the arguments and results come from here, too.
__all__ = [
    "BUSY_IDLE_TIMEOUT",
    "IDLE_TIMEOUT",
    "LIST_TIMEOUT",
    "Client",
    "DeleteOptions",
    "ListOptions",
    "NoRequestMetrics",
    "Page",
    "PatchType",
    "PropagationPolicy",
    "RequestMetrics",
    "WatchOptions",
    "WriteHook",
    "ignore_write",
]

ObjectT = TypeVar("ObjectT", bound=KubeObject)
DecodedT = TypeVar("DecodedT")
CompleteT = TypeVar("CompleteT", bound=CompleteObject)

_BATCH: Final = 256
"""Events of a watch that are decoded at once: for pods this takes 2 ms."""


class Page(Struct, Generic[ObjectT], frozen=True):
    """One page of a list; `continue_` is empty on the last."""

    items: list[ObjectT]
    resource_version: str
    continue_: str


WriteHook = Callable[[AnyResource, KubeObject], None]
"""Called after each create, update and patch, with the object as stored."""


def ignore_write(resource: AnyResource, obj: KubeObject) -> None:
    """Do nothing after a write."""


class Client:
    """Verbs on resources, as one identity with its own rate limit.

    Every method raises an `APIError` by reason when the server refuses, a
    `TransportError` when there is no answer (a write may have been applied or
    not, except with `NotSent`), and a `ProtocolError` when the answer cannot be
    read. When the server asks for a retry (429 or 5xx with Retry-After), the client
    retries up to ten times. When the connection breaks, the client retries a GET
    once.

    >>> metadata = {"namespace": "default", "name": "settings"}
    >>> config = {"metadata": metadata, "data": {"color": "red"}}
    >>> (await client.apply(core_v1.CONFIG_MAPS, config)).data
    {'color': 'red'}
    >>> shown = await client.get(WEBSITES, "default", "shop")
    >>> shown.spec.replicas
    1
    >>> patch = {"spec": {"replicas": 2}}
    >>> (await client.patch_exactly(WEBSITES, shown, patch)).spec.replicas
    2
    >>> await client.delete(WEBSITES, "default", "shop")
    """

    def __init__(  # noqa: PLR0913 - one for each part that a caller may replace
        self,
        transport: Transport,
        clock: Clock,
        limiter: RequestLimiter | None = None,
        metrics: RequestMetrics | None = None,
        warnings: WarningHeaders | None = None,
        server_clock: ServerClock | None = None,
        *,
        in_flight: int = 0,
        write_timeout: float = WRITE_TIMEOUT,
        on_write: WriteHook = ignore_write,
        limits_watches: bool = False,
        field_manager: str = NAME,
        clusters: Mapping[str, "Client"] = MappingProxyType({}),
    ) -> None:
        """Without a limiter the rate is not limited.

        At most `in_flight` requests are in flight at a time, not counting watches; 0
        means no limit. The keys of syncs share them, see `Slots`. A write may take
        `write_timeout` seconds from the moment at which it is sent. `on_write` is
        called with each object that was created or changed, as stored. The rate limit
        holds for watches only with `limits_watches`; client-go's never does.
        `field_manager` owns the fields that `apply` sets. Requests for resources of
        other clusters are sent by the clients of `clusters`, by name.
        """
        self._field_manager = field_manager
        self._on_write = on_write
        self._rest = RESTClient(
            transport,
            clock,
            limiter,
            metrics,
            warnings,
            server_clock,
            in_flight=in_flight,
            write_timeout=write_timeout,
            limits_watches=limits_watches,
        )
        self._clusters = {name: each._rest for name, each in clusters.items()}  # noqa: SLF001 - of this class

    def _to(self, resource: AnyResource) -> RESTClient:
        """Return what sends requests to the cluster of a resource.

        Raises ValueError for a cluster that this client does not reach.
        """
        if not resource.cluster:
            return self._rest
        if (rest := self._clusters.get(resource.cluster)) is None:
            msg = (
                f"{resource.group_resource}: the cluster is not known; name a resource "
                "of it in the permissions of the Descriptor, or in requires"
            )
            raise ValueError(msg)
        return rest

    # The verbs that read.

    async def raw(
        self,
        method: str,
        path: str,
        *,
        accept: str = "",
        timeout: float = 10.0,  # noqa: ASYNC109 - it bounds one exchange
    ) -> Response:
        """Send a request without rate limit and types, e.g. to ``/healthz``.

        A read is sent once more if its connection breaks; no other error is retried.
        """
        headers = {"accept": accept} if accept else {}
        request = Request(method, path, headers=headers, timeout=timeout)
        return await self._rest.raw(request)

    async def get(
        self, resource: Resource[ObjectT], namespace: str, name: str
    ) -> ObjectT:
        """Return one object as it is in etcd (a quorum read)."""
        path = object_path(resource, namespace, name)
        request = Request("GET", path, headers=serializer.headers_of(resource))
        return serializer.decode(resource.type, await self._to(resource).call(request))

    async def get_json(
        self, resource: AnyResource, namespace: str, name: str
    ) -> dict[str, Any]:
        """Return one object with all its fields, also those that no type has."""
        path = object_path(resource, namespace, name)
        request = Request("GET", path, headers=serializer.JSON)
        return serializer.decode(dict[str, Any], await self._to(resource).call(request))

    async def read(
        self, path: str, object_type: type[DecodedT], query: Query = ()
    ) -> DecodedT:
        """Return what the server answers for a path that belongs to no resource.

        For example the metrics of an aggregated API. Each segment of the path must
        have been checked, see `api.meta.segment`.
        """
        answer = await self._rest.call(
            Request("GET", path, query=query, headers=serializer.JSON)
        )
        return serializer.decode(object_type, answer)

    async def list_page(
        self,
        resource: Resource[ObjectT],
        namespace: str = "",
        options: ListOptions | None = None,
    ) -> Page[ObjectT]:
        """Return one page of a list."""
        request = Request(
            "GET",
            collection_path(resource, namespace),
            query=(options or ListOptions()).query(),
            headers=serializer.METADATA_LIST
            if resource.metadata_only
            else serializer.JSON,
            timeout=LIST_TIMEOUT,
            largest_answer=LARGEST_LIST,
        )
        answer = await self._to(resource).call(request)
        try:
            page = await serializer.decode_list(resource.type, answer.body)
        except msgspec.DecodeError as error:
            raise serializer.unreadable(error) from error
        metadata = page.metadata
        return Page(page.items or [], metadata.resource_version, metadata.continue_)

    async def list_all(
        self,
        resource: Resource[ObjectT],
        namespace: str = "",
        options: ListOptions | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[Page[ObjectT]]:
        """Yield the pages of a list.

        Raises Expired if the list takes so long that the server has dropped its
        version; the caller must then discard the pages that it got before.
        """
        options = options or ListOptions()
        token = ""
        while True:
            page = await self.list_page(
                resource, namespace, _next_page(options, token, page_size)
            )
            yield page
            token = page.continue_
            if not token:
                return

    async def watch(
        self,
        resource: Resource[ObjectT],
        namespace: str = "",
        options: WatchOptions | None = None,
        decoder: serializer.EventDecoder[ObjectT] | None = None,
    ) -> AsyncGenerator[list[serializer.WatchEvent[ObjectT]], None]:
        """Yield the events of a watch; events that arrive together form a batch.

        `decoder` decodes their lines; without it, that of the resource's type does.

        The first batch is empty: it means that the server has begun to answer. The
        generator ends when the server ends the stream. Close the generator
        (`contextlib.aclosing`) to close the connection.
        """
        options = options or WatchOptions()
        request = Request(
            "GET",
            collection_path(resource, namespace),
            query=options.query(),
            headers=serializer.headers_of(resource),
            timeout=options.idle_timeout,
        )
        stream = await self._to(resource).open(request)
        try:
            yield []
            decode_line = (decoder or _event_decoder(resource.type)).decode
            # Close them at once, not when Python's garbage collector finds them.
            async with (
                aclosing(stream.chunks()) as chunks,
                aclosing(serializer.lines_of(chunks)) as batches,
            ):
                async for lines in batches:
                    for start in range(0, len(lines), _BATCH):
                        batch = lines[start : start + _BATCH]
                        yield [decode_line(line) for line in batch]
        finally:
            await stream.close()

    async def get_scale(
        self, resource: AnyResource, namespace: str, name: str
    ) -> Scale:
        """Return the scale subresource."""
        path = object_path(resource, namespace, name, "scale")
        request = Request("GET", path, headers=serializer.JSON)
        return serializer.decode(Scale, await self._to(resource).call(request))

    # The verbs that write.

    async def create(self, resource: Resource[CompleteT], obj: CompleteT) -> CompleteT:
        """Create `obj` in its namespace; return it as stored.

        Raises TypeError for a projection; see `update`.
        """
        body = serializer.encode(resource, obj)
        return await self.create_json(resource, obj.metadata.namespace, body)

    async def try_create(
        self, resource: Resource[CompleteT], obj: CompleteT
    ) -> CompleteT:
        """Return `obj` as `create` would store it, after admission; store nothing."""
        body = serializer.encode(resource, obj)
        path = namespace_path(resource, obj.metadata.namespace)
        query = (("dryRun", "All"),)
        answer = await self._to(resource).write("POST", path, body, query=query)
        return serializer.decode(resource.type, answer)

    async def create_for_metadata(
        self, resource: Resource[CompleteT], obj: CompleteT
    ) -> PartialObject:
        """Create `obj` as `create` does, but ask only for the metadata as stored."""
        body = serializer.encode(resource, obj)
        return await self.create_json(
            metadata_of(resource), obj.metadata.namespace, body
        )

    async def create_json(
        self, resource: Resource[ObjectT], namespace: str, body: bytes
    ) -> ObjectT:
        """Create the object that `body` holds as JSON; return it as stored."""
        path = namespace_path(resource, namespace)
        return await self._write("POST", resource, path, body)

    async def create_subresource(
        self,
        resource: AnyResource,
        namespace: str,
        name: str,
        subresource: str,
        body: CompleteT,
    ) -> CompleteT:
        """Post `body` to a subresource; return the answer, of the same type."""
        serializer.require_complete(body)
        path = object_path(resource, namespace, name, subresource)
        answer = await self._to(resource).write("POST", path, msgspec.json.encode(body))
        return serializer.decode(type(body), answer)

    async def update(
        self, resource: Resource[CompleteT], obj: CompleteT, subresource: str = ""
    ) -> CompleteT:
        """Replace an object (or its ``status``); return it as stored.

        Raises Conflict if the stored object has another resource version than `obj`.
        Raises TypeError for a projection, before anything is sent: the server would
        delete the fields that a projection lacks.
        """
        body = serializer.encode(resource, obj)
        path = _path_of(resource, obj, subresource)
        return await self._write("PUT", resource, path, body)

    async def update_for_metadata(
        self, resource: Resource[CompleteT], obj: CompleteT, subresource: str = ""
    ) -> PartialObject:
        """Replace `obj` as `update` does, but ask only for the metadata as stored."""
        body = serializer.encode(resource, obj)
        path = _path_of(resource, obj, subresource)
        return await self._write("PUT", metadata_of(resource), path, body)

    async def update_json(
        self, resource: Resource[ObjectT], obj: Mapping[str, Any]
    ) -> ObjectT:
        """Replace an object with an edited one that `get_json` returned."""
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        path = object_path(resource, namespace, name)
        return await self._write("PUT", resource, path, msgspec.json.encode(obj))

    async def patch(
        self,
        resource: Resource[ObjectT],
        namespace: str,
        name: str,
        patch: Any,  # noqa: ANN401 - any JSON
        patch_type: PatchType | None = None,
        subresource: str = "",
    ) -> ObjectT:
        """Change some fields; return the object as stored.

        By default it is a strategic merge patch, and a merge patch for a custom
        resource, of which the API server takes no strategic one. A resourceVersion or
        uid in the patch's metadata is a precondition.
        """
        if patch_type is None:
            is_custom = resource.group not in BUILT_IN_GROUPS
            patch_type = PatchType.MERGE if is_custom else PatchType.STRATEGIC
        path = object_path(resource, namespace, name, subresource)
        body = msgspec.json.encode(patch)
        return await self._write("PATCH", resource, path, body, patch_type)

    async def patch_exactly(
        self,
        resource: Resource[ObjectT],
        obj: KubeObject,
        patch: Mapping[str, Any],
        patch_type: PatchType | None = None,
        subresource: str = "",
        *,
        same_version: bool = False,
    ) -> ObjectT:
        """Patch this object, and none of its name; raise Conflict if it is another.

        With `same_version`, raises Conflict also if the object has changed.
        """
        known, same = obj.metadata, {"uid": obj.metadata.uid}
        if same_version:
            same["resourceVersion"] = known.resource_version
        patch = {**patch, "metadata": {**patch.get("metadata", {}), **same}}
        where = (resource, known.namespace, known.name)
        return await self.patch(*where, patch, patch_type, subresource)

    async def apply(
        self,
        resource: Resource[ObjectT],
        config: Mapping[str, Any],
        field_manager: str = "",
        subresource: str = "",
    ) -> ObjectT:
        """Create or change the object that `config` names; return it as stored.

        `config` has the name, the namespace unless the object is cluster-scoped, and
        the fields that this client decides on; all others stay. Values may be API
        types. It takes fields from other managers (server-side apply with force).
        Fields that `field_manager`, by default the client's own, applied before, and
        that `config` lacks, are removed unless somebody else owns them. A uid in the
        metadata is a precondition; without it an object that is gone is created again.
        Raises InvalidName if there is no name.
        """
        metadata = config.get("metadata", {})
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        path = object_path(resource, namespace, name, subresource)
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        body = msgspec.json.encode({**head, **config})
        manager = field_manager or self._field_manager
        query = (("fieldManager", manager), ("force", "true"))
        return await self._write(
            "PATCH", resource, path, body, serializer.APPLY_PATCH, query
        )

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
        body = msgspec.json.encode({**head, "metadata": same})
        query = (("fieldManager", field_manager),)
        return await self._write(
            "PATCH", resource, path, body, serializer.APPLY_PATCH, query
        )

    async def _write(
        self,
        method: str,
        resource: Resource[ObjectT],
        path: str,
        body: bytes,
        content_type: str = "",
        query: Query = (),
    ) -> ObjectT:
        """Send an object or a patch; return the object as stored."""
        headers = serializer.headers_of(resource)
        if content_type:
            headers = {**headers, "content-type": content_type}
        answer = await self._to(resource).write(
            method, path, body, headers=headers, query=query
        )
        stored = serializer.decode(resource.type, answer)
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
        await self._to(resource).write("DELETE", path, body)

    async def delete_exactly(
        self,
        resource: AnyResource,
        obj: KubeObject,
        options: DeleteOptions | None = None,
        *,
        same_version: bool = False,
    ) -> None:
        """Delete this object, and none of its name; raise Conflict if it is another.

        With `same_version`, raises Conflict also if the object has changed.
        """
        known = obj.metadata
        version = known.resource_version if same_version else ""
        exact = msgspec.structs.replace(
            options or DeleteOptions(), uid=known.uid, resource_version=version
        )
        await self.delete(resource, known.namespace, known.name, exact)

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
        await self._to(resource).write(
            "DELETE", path, body, timeout=LIST_TIMEOUT, largest=LARGEST_LIST
        )

    async def replace_scale(self, resource: AnyResource, scale: Scale) -> Scale:
        """Replace a scale that `get_scale` returned; return it as stored.

        Raises Conflict if the object has changed since.
        """
        namespace, name = scale.metadata.namespace, scale.metadata.name
        path = object_path(resource, namespace, name, "scale")
        answer = await self._to(resource).write("PUT", path, msgspec.json.encode(scale))
        return serializer.decode(Scale, answer)

    def api_client(self) -> "ApiClient":
        """Return an ApiClient of kubernetes_asyncio whose requests this client sends.

        They have its identity, its limits, its fence and its metrics. The first call
        imports kubernetes_asyncio: 40 MB, and half a second in which nothing else runs.
        Call it in a running event loop. See `client.rest.api_client` for its errors.
        """
        from .api_client import ClientOfController  # noqa: PLC0415 - 40 MB

        return ClientOfController(self._rest, self._on_write)


@cache
def _event_decoder(object_type: type[ObjectT]) -> serializer.EventDecoder[ObjectT]:
    return serializer.EventDecoder(object_type)


def _path_of(resource: AnyResource, obj: CompleteObject, subresource: str) -> str:
    metadata = obj.metadata
    return object_path(resource, metadata.namespace, metadata.name, subresource)


def _next_page(options: ListOptions, token: str, limit: int) -> ListOptions:
    if token:  # it contains the version
        options = replace(options, resource_version="", resource_version_match="")
    return replace(options, limit=limit, continue_=token)
