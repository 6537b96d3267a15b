"""The verbs that read: get, list and watch (controller-runtime: client.Reader)."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import cache
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from controller_manager.api.autoscaling.v1 import Scale
from controller_manager.api.meta import AnyResource, KubeObject, Resource

from .options import ListOptions, WatchOptions
from .request import LIST_TIMEOUT, RESTClient, collection_path, object_path
from .serializer import JSON, METADATA_LIST, decode, decode_list, headers_of, unreadable
from .transport import LARGEST_LIST, Query, Request, Response
from .watch import EventDecoder, WatchEvent, lines_of

ObjectT = TypeVar("ObjectT", bound=KubeObject)
DecodedT = TypeVar("DecodedT")

_BATCH: Final = 256
"""Events of a watch that are decoded at once: for pods this takes 2 ms."""


class Page(Struct, Generic[ObjectT], frozen=True):
    """One page of a list; `continue_` is empty on the last."""

    items: list[ObjectT]
    resource_version: str
    continue_: str


class Reader:
    """Reads objects of any resource; see `Client`."""

    def __init__(self, rest: RESTClient) -> None:
        self._rest = rest

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
        answer = await self._rest.call(
            Request("GET", path, headers=headers_of(resource))
        )
        return decode(resource.type, answer)

    async def get_json(
        self, resource: AnyResource, namespace: str, name: str
    ) -> dict[str, Any]:
        """Return one object with all its fields, also those that no type has."""
        path = object_path(resource, namespace, name)
        answer = await self._rest.call(Request("GET", path, headers=JSON))
        return decode(dict[str, Any], answer)

    async def read(
        self, path: str, object_type: type[DecodedT], query: Query = ()
    ) -> DecodedT:
        """Return what the server answers for a path that belongs to no resource.

        For example the metrics of an aggregated API. Each segment of the path must
        have been checked, see `api.meta.segment`.
        """
        answer = await self._rest.call(Request("GET", path, query=query, headers=JSON))
        return decode(object_type, answer)

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
            headers=METADATA_LIST if resource.metadata_only else JSON,
            timeout=LIST_TIMEOUT,
            largest_answer=LARGEST_LIST,
        )
        answer = await self._rest.call(request)
        try:
            page = await decode_list(resource.type, answer.body)
        except msgspec.DecodeError as error:
            raise unreadable(error) from error
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
        decoder: EventDecoder[ObjectT] | None = None,
    ) -> AsyncGenerator[list[WatchEvent[ObjectT]], None]:
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
            headers=headers_of(resource),
            timeout=options.idle_timeout,
        )
        stream = await self._rest.open(request)
        try:
            yield []
            decode_line = (decoder or _event_decoder(resource.type)).decode
            # Close them at once, not when Python's garbage collector finds them.
            async with (
                aclosing(stream.chunks()) as chunks,
                aclosing(lines_of(chunks)) as batches,
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
        answer = await self._rest.call(Request("GET", path, headers=JSON))
        return decode(Scale, answer)


@cache
def _event_decoder(object_type: type[ObjectT]) -> EventDecoder[ObjectT]:
    return EventDecoder(object_type)


def _next_page(options: ListOptions, token: str, limit: int) -> ListOptions:
    return ListOptions(
        label_selector=options.label_selector,
        field_selector=options.field_selector,
        limit=limit,
        continue_=token,
        # The token of a continued list contains the version.
        resource_version="" if token else options.resource_version,
        resource_version_match="" if token else options.resource_version_match,
    )
