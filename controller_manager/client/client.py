"""The client: typed verbs (get, list, watch, create, ...) over a transport."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
)
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from enum import StrEnum
from functools import cache
from http import HTTPStatus
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from controller_manager.api.autoscaling.v1 import Scale
from controller_manager.api.meta import CompleteObject, KubeObject, PartialObject
from controller_manager.api.resource import AnyResource, Resource, metadata_of
from controller_manager.client.errors import (
    APIError,
    NotSent,
    ProtocolError,
    RequestTimeout,
    TransportError,
    error_from_response,
    is_success,
)
from controller_manager.client.long_lists import decode_list
from controller_manager.client.paths import (
    collection_path,
    namespace_path,
    object_path,
)
from controller_manager.client.ratelimit import RequestLimiter
from controller_manager.client.server_clock import ServerClock
from controller_manager.client.slots import Slots
from controller_manager.client.sync_key import SYNC_KEY
from controller_manager.client.transport import (
    LARGEST_ANSWER,
    LARGEST_LIST,
    READS,
    Query,
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.client.warning_headers import WarningHeaders
from controller_manager.client.watch import EventDecoder, WatchEvent, lines_of
from controller_manager.clock import Clock
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import WRITE_TIMEOUT

ObjectT = TypeVar("ObjectT", bound=KubeObject)
CompleteT = TypeVar("CompleteT", bound=CompleteObject)
DecodedT = TypeVar("DecodedT")
AnswerT = TypeVar("AnswerT", Response, Stream)

LIST_TIMEOUT: Final = 120.0
"""Seconds that one page of a list may take."""

IDLE_TIMEOUT: Final = 75.0
"""Seconds that a watch may bring nothing: a bookmark comes about once a minute."""

BUSY_IDLE_TIMEOUT: Final = 35.0
"""The same for a resource that kubelets or leaders write often: nodes and leases.

A kubelet renews its lease every ten seconds. In a cluster where nothing changes for so
long, the watch is opened anew a little too often.
"""

_MAX_RETRIES: Final = 10
"""The most retries that a server may ask for with Retry-After (client-go's number)."""

_LARGEST_REFUSAL: Final = 1 << 20
"""The most bytes of a refused watch that are read: a Status has a few hundred."""

_JSON: Final = {"accept": "application/json", "content-type": "application/json"}
_APPLY_PATCH: Final = "application/apply-patch+yaml"
_METADATA: Final = {
    "accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
    "application/json",
    "content-type": "application/json",
}
_METADATA_LIST: Final = {
    "accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
    "application/json",
}


class PatchType(StrEnum):
    """The kinds of patch, as media types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class PropagationPolicy(StrEnum):
    """The propagation policy: how the garbage collector treats dependents."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class DeleteOptions(Struct, frozen=True):
    """The options of a delete; `uid` and `resource_version` are preconditions."""

    grace_period_seconds: int | None = None
    propagation_policy: PropagationPolicy | None = None
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False

    def encode(self) -> bytes:
        """Return the request body."""
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if self.grace_period_seconds is not None:
            body["gracePeriodSeconds"] = self.grace_period_seconds
        if self.propagation_policy is not None:
            body["propagationPolicy"] = self.propagation_policy
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        if given := {key: value for key, value in preconditions.items() if value}:
            body["preconditions"] = given
        if self.dry_run:
            body["dryRun"] = ["All"]
        return msgspec.json.encode(body)


class ListOptions(Struct, frozen=True):
    """The options of a list: its selectors, its version, and the size of a page."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_: str = ""
    resource_version: str = ""
    resource_version_match: str = ""

    def query(self) -> Query:
        """Return the query parameters that are set."""
        pairs = (
            ("labelSelector", self.label_selector),
            ("fieldSelector", self.field_selector),
            ("limit", str(self.limit) if self.limit else ""),
            ("continue", self.continue_),
            ("resourceVersion", self.resource_version),
            ("resourceVersionMatch", self.resource_version_match),
        )
        return tuple((name, value) for name, value in pairs if value)


class WatchOptions(Struct, frozen=True):
    """The options of a watch: its selectors, its version, and its duration in seconds.

    A stream that sends nothing for `idle_timeout` counts as broken. A server sends
    a bookmark about once a minute, so 75 seconds without data mean that the connection
    is dead, or that the server sends no bookmarks: to open the watch anew costs little.
    """

    resource_version: str = ""
    timeout_seconds: int = 300
    send_initial_events: bool = False
    label_selector: str = ""
    field_selector: str = ""
    idle_timeout: float = IDLE_TIMEOUT

    def query(self) -> Query:
        """Return the query parameters."""
        pairs = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(self.timeout_seconds)),
        ]
        if self.resource_version or not self.send_initial_events:
            pairs.append(("resourceVersion", self.resource_version))
        if self.send_initial_events:
            pairs += [
                ("sendInitialEvents", "true"),
                ("resourceVersionMatch", "NotOlderThan"),
            ]
        if self.label_selector:
            pairs.append(("labelSelector", self.label_selector))
        if self.field_selector:
            pairs.append(("fieldSelector", self.field_selector))
        return tuple(pairs)


class RequestMetrics(Protocol):
    """Hooks that a client calls."""

    def observe_request(
        self, method: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        """Observe one request; `code` is ``<error>`` if there was no answer."""

    def observe_rate_limit(self, method: str, seconds: float) -> None:
        """Observe the wait for the client's own rate limiter."""

    def retried(self, method: str, code: str) -> None:
        """Count a retry; `code` is that of the last answer, ``<error>`` for none."""


class NoRequestMetrics:
    """Hooks that do nothing."""

    def observe_request(
        self, method: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        """Ignore."""

    def observe_rate_limit(self, method: str, seconds: float) -> None:
        """Ignore."""

    def retried(self, method: str, code: str) -> None:
        """Ignore."""


class Page(Struct, Generic[ObjectT], frozen=True):
    """One page of a list; `continue_` is empty on the last."""

    items: list[ObjectT]
    resource_version: str
    continue_: str


@cache
def _decoder(object_type: type[DecodedT]) -> msgspec.json.Decoder[DecodedT]:
    return msgspec.json.Decoder(object_type)


@cache
def _event_decoder(object_type: type[ObjectT]) -> EventDecoder[ObjectT]:
    return EventDecoder(object_type)


WriteHook = Callable[[AnyResource, KubeObject], None]
"""Called after each create, update and patch, with the object as stored."""


def ignore_write(resource: AnyResource, obj: KubeObject) -> None:
    """Do nothing after a write."""


_BATCH: Final = 256
"""Events of a watch that are decoded at once: for pods this takes 2 ms."""


class Client:
    """Verbs on resources, as one identity with its own rate limit.

    Every method raises an `APIError` by reason when the server refuses, a
    `TransportError` when there is no answer (a write may have been applied or
    not, except with `NotSent`), and a `ProtocolError` when the answer cannot be
    read. When the server asks for a retry (429 or 5xx with Retry-After), the client
    retries up to ten times. When the connection breaks, the client retries a GET
    once.
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
    ) -> None:
        """Take the transport; without a limiter the rate is not limited.

        At most `in_flight` requests are in flight at a time, not counting watches; 0
        means no limit. The keys of syncs share them, see `client.slots`. A write may
        take `write_timeout` seconds from the moment at which it is sent. `on_write` is
        called with each object that was created or changed, as stored. The rate limit
        holds for watches only with `limits_watches`; client-go's never does.
        """
        self._limits_watches = limits_watches
        self._on_write = on_write
        self._slots = Slots(in_flight) if in_flight else None
        self._write_timeout = write_timeout
        self._server_clock = server_clock or ServerClock(clock)
        self._warnings = warnings or WarningHeaders(silent_logger())
        self._transport = transport
        self._clock = clock
        self._limiter = limiter or RequestLimiter(0, 0, clock)
        self._metrics = metrics or NoRequestMetrics()

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
        return await self._repeated(request, self._exchange)

    async def get(
        self, resource: Resource[ObjectT], namespace: str, name: str
    ) -> ObjectT:
        """Return one object as it is in etcd (a quorum read)."""
        path = object_path(resource, namespace, name)
        answer = await self._call(Request("GET", path, headers=_headers(resource)))
        return self._decode(resource.type, answer)

    async def get_json(
        self, resource: AnyResource, namespace: str, name: str
    ) -> dict[str, Any]:
        """Return one object with all its fields, also those that no type has."""
        path = object_path(resource, namespace, name)
        answer = await self._call(Request("GET", path, headers=_JSON))
        return self._decode(dict[str, Any], answer)

    async def read(
        self, path: str, object_type: type[DecodedT], query: Query = ()
    ) -> DecodedT:
        """Return what the server answers for a path that belongs to no resource.

        For example the metrics of an aggregated API. Each segment of the path must
        have been checked, see `api.resource.segment`.
        """
        answer = await self._call(Request("GET", path, query=query, headers=_JSON))
        return self._decode(object_type, answer)

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
            headers=_METADATA_LIST if resource.metadata_only else _JSON,
            timeout=LIST_TIMEOUT,
            largest_answer=LARGEST_LIST,
        )
        answer = await self._call(request)
        try:
            page = await decode_list(resource.type, answer.body)
        except msgspec.DecodeError as error:
            raise _unreadable(error) from error
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
            headers=_headers(resource),
            timeout=options.idle_timeout,
        )
        started = self._clock.monotonic()
        stream = await self._open(request)
        try:
            self._metrics.observe_request(
                "GET", str(stream.status), self._clock.monotonic() - started, 0, 0
            )
            if warning := stream.headers.get("warning"):
                self._warnings.log(warning)
            if stream.status != HTTPStatus.OK:
                body = await _beginning(stream)
                raise _refusal(stream.status, body, stream.headers)
            yield []
            decode = (decoder or _event_decoder(resource.type)).decode
            # Close them at once, not when Python's garbage collector finds them.
            async with (
                aclosing(stream.chunks()) as chunks,
                aclosing(lines_of(chunks)) as batches,
            ):
                async for lines in batches:
                    for start in range(0, len(lines), _BATCH):
                        batch = lines[start : start + _BATCH]
                        yield [decode(line) for line in batch]
        finally:
            await stream.close()

    async def _open(self, request: Request) -> Stream:
        """Open a watch, within the rate limit if it holds for watches."""
        if not self._limits_watches:
            return await self._repeated(request, self._transport.stream)
        await self._throttle(request.method)
        try:
            return await self._repeated(request, self._transport.stream)
        except NotSent:
            self._limiter.give_back()
            raise

    async def _repeated(
        self, request: Request, send: Callable[[Request], Awaitable[AnswerT]]
    ) -> AnswerT:
        """Send a read, and once more if its connection breaks.

        The server may have closed an idle connection at that moment.
        """
        try:
            return await send(request)
        except (NotSent, RequestTimeout):
            raise
        except TransportError:
            if request.method not in READS:
                raise
            self._metrics.retried(request.method, "<error>")
            return await send(request)

    async def create(self, resource: Resource[CompleteT], obj: CompleteT) -> CompleteT:
        """Create `obj` in its namespace; return it as stored.

        Raises TypeError for a projection; see `update`.
        """
        body = _encode(resource, obj)
        path = namespace_path(resource, obj.metadata.namespace)
        answer = await self._write("POST", path, body)
        return self._stored(resource, answer)

    async def create_for_metadata(
        self, resource: Resource[CompleteT], obj: CompleteT
    ) -> PartialObject:
        """Create `obj` as `create` does, but ask only for the metadata as stored."""
        body = _encode(resource, obj)
        return await self.create_json(
            metadata_of(resource), obj.metadata.namespace, body
        )

    async def create_json(
        self, resource: Resource[ObjectT], namespace: str, body: bytes
    ) -> ObjectT:
        """Create the object that `body` holds as JSON; return it as stored."""
        path = namespace_path(resource, namespace)
        answer = await self._write("POST", path, body, headers=_headers(resource))
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
        _require_complete(body)
        path = object_path(resource, namespace, name, subresource)
        answer = await self._write("POST", path, msgspec.json.encode(body))
        return self._decode(type(body), answer)

    async def update(
        self, resource: Resource[CompleteT], obj: CompleteT, subresource: str = ""
    ) -> CompleteT:
        """Replace an object (or its ``status``); return it as stored.

        Raises Conflict if the stored object has another resource version than `obj`.
        Raises TypeError for a projection, before anything is sent: the server would
        delete the fields that a projection lacks.
        """
        body = _encode(resource, obj)
        return await self._replace(resource, obj, body, subresource)

    async def update_for_metadata(
        self, resource: Resource[CompleteT], obj: CompleteT, subresource: str = ""
    ) -> PartialObject:
        """Replace `obj` as `update` does, but ask only for the metadata as stored."""
        body = _encode(resource, obj)
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
        answer = await self._write("PUT", path, body, headers=_headers(resource))
        return self._stored(resource, answer)

    async def update_json(
        self, resource: Resource[ObjectT], obj: Mapping[str, Any]
    ) -> ObjectT:
        """Replace an object with an edited one that `get_json` returned."""
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        path = object_path(resource, namespace, name)
        body = msgspec.json.encode(obj)
        answer = await self._write("PUT", path, body, headers=_headers(resource))
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
        headers = {**_headers(resource), "content-type": patch_type}
        body = msgspec.json.encode(patch)
        answer = await self._write("PATCH", path, body, headers=headers)
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
        headers = {**_headers(resource), "content-type": _APPLY_PATCH}
        answer = await self._write("PATCH", path, body, headers=headers, query=query)
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
        answer = await self._write(
            "PATCH",
            path,
            msgspec.json.encode({**head, "metadata": same}),
            headers={**_headers(resource), "content-type": _APPLY_PATCH},
            query=(("fieldManager", field_manager),),
        )
        return self._stored(resource, answer)

    def _stored(self, resource: Resource[ObjectT], answer: Response) -> ObjectT:
        """Decode the object in the answer to a write, and call the write hook."""
        stored = self._decode(resource.type, answer)
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
        await self._write("DELETE", path, body)

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
        await self._write(
            "DELETE", path, body, timeout=LIST_TIMEOUT, largest=LARGEST_LIST
        )

    async def get_scale(
        self, resource: AnyResource, namespace: str, name: str
    ) -> Scale:
        """Return the scale subresource."""
        path = object_path(resource, namespace, name, "scale")
        answer = await self._call(Request("GET", path, headers=_JSON))
        return self._decode(Scale, answer)

    async def update_scale(
        self, resource: AnyResource, namespace: str, name: str, replicas: int
    ) -> Scale:
        """Set the desired replicas through the scale subresource."""
        path = object_path(resource, namespace, name, "scale")
        headers = {"accept": "application/json", "content-type": PatchType.MERGE}
        body = msgspec.json.encode({"spec": {"replicas": replicas}})
        return self._decode(
            Scale, await self._write("PATCH", path, body, headers=headers)
        )

    async def replace_scale(self, resource: AnyResource, scale: Scale) -> Scale:
        """Replace a scale that `get_scale` returned; return it as stored.

        Raises Conflict if the object has changed since.
        """
        namespace, name = scale.metadata.namespace, scale.metadata.name
        path = object_path(resource, namespace, name, "scale")
        answer = await self._write("PUT", path, msgspec.json.encode(scale))
        return self._decode(Scale, answer)

    async def _write(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str] = _JSON,
        query: Query = (),
        timeout: float = 0.0,  # noqa: ASYNC109 - it bounds one exchange
        largest: int = LARGEST_ANSWER,
    ) -> Response:
        request = Request(
            method,
            path,
            query=query,
            headers=headers,
            body=body,
            timeout=timeout or self._write_timeout,
            largest_answer=largest,
        )
        return await self._call(request)

    async def _call(self, request: Request) -> Response:
        """Send a request within the rate limit, with safe retries; check the answer."""
        for attempt in range(_MAX_RETRIES + 1):
            last = attempt == _MAX_RETRIES
            try:
                # The rate is limited after a slot is free: requests that wait for a
                # slot must not use up the rate that other keys need.
                async with self._slot():
                    await self._throttle(request.method)
                    answer = await self._exchange(request)
            except TransportError as lost:
                if isinstance(lost, NotSent):
                    self._limiter.give_back()
                if request.method != "GET" or attempt >= 1:
                    raise
                self._metrics.retried(request.method, "<error>")
                continue
            if is_success(answer.status):
                return answer
            error = _refusal(answer.status, answer.body, answer.headers)
            if last or not _asks_for_retry(answer):
                raise error
            await asyncio.sleep(error.retry_after or 1.0)
            self._metrics.retried(request.method, str(answer.status))
        raise AssertionError  # the last attempt returns or raises

    def _slot(self) -> AbstractAsyncContextManager[None]:
        if self._slots is None:
            return nullcontext()
        return self._slots.slot(SYNC_KEY.get())

    async def _throttle(self, method: str) -> None:
        waited = await self._limiter.acquire()
        self._metrics.observe_rate_limit(method, waited)

    async def _exchange(self, request: Request) -> Response:
        started = self._clock.monotonic()
        code, received = "<error>", 0
        try:
            answer = await self._transport.request(request)
            code, received = str(answer.status), len(answer.body)
            if date := answer.headers.get("date"):
                self._server_clock.observe(date)
            if warning := answer.headers.get("warning"):
                self._warnings.log(warning)
            return answer
        finally:
            self._metrics.observe_request(
                request.method,
                code,
                self._clock.monotonic() - started,
                len(request.body or b""),
                received,
            )

    def _decode(self, object_type: type[DecodedT], answer: Response) -> DecodedT:
        # mypy takes no type object for Hashable (its issue 11469).
        decoder: msgspec.json.Decoder[DecodedT] = _decoder(object_type)  # type: ignore[arg-type]
        try:
            return decoder.decode(answer.body)
        except msgspec.DecodeError as error:
            raise _unreadable(error) from error


def _headers(resource: AnyResource) -> Mapping[str, str]:
    """Return the headers of requests whose answer is one object of a resource."""
    return _METADATA if resource.metadata_only else _JSON


def _unreadable(error: msgspec.DecodeError) -> ProtocolError:
    return ProtocolError(f"the API server's answer cannot be read: {error}")


def _encode(resource: AnyResource, obj: CompleteObject) -> bytes:
    """Return a request body; raises TypeError unless `obj` is complete."""
    _require_complete(obj)
    if not obj.kind:
        obj = msgspec.structs.replace(
            obj, api_version=resource.api_version, kind=resource.kind
        )
    return msgspec.json.encode(obj)


def _require_complete(obj: KubeObject) -> None:
    """Raise TypeError for a projection, if the type checker has not found it."""
    if not isinstance(obj, CompleteObject):
        name = type(obj).__name__
        msg = (
            f"{name} is a projection: a PUT would delete the fields that it lacks; "
            "patch the object, or create it from bytes"
        )
        raise TypeError(msg)


async def _beginning(stream: Stream) -> bytes:
    """Return the beginning of a refusal, which is all of any that can be read."""
    parts: list[bytes] = []
    left = _LARGEST_REFUSAL
    async with aclosing(stream.chunks()) as chunks:
        async for chunk in chunks:
            parts.append(chunk[:left])
            left -= len(chunk)
            if left <= 0:
                break
    return b"".join(parts)


def _refusal(code: int, body: bytes, headers: Mapping[str, str]) -> APIError:
    retry_after, location = headers.get("retry-after"), headers.get("location")
    return error_from_response(code, body, retry_after, location)


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


def _asks_for_retry(answer: Response) -> bool:
    overloaded = (
        answer.status == HTTPStatus.TOO_MANY_REQUESTS
        or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    )
    return overloaded and "retry-after" in answer.headers
