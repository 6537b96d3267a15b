"""The transport of a preview: reads with the overlay on top, and no writes."""

import random
from http import HTTPStatus

from controller_manager.client.transport import (
    READS,
    Request,
    Response,
    Stream,
    Transport,
)

from .answers import expired, not_found, refusal, wants_metadata
from .overlay import Overlay
from .reading import Reader, to_server
from .streams import MergedStream, RefusedStream
from .target import Collection, Target, find_target
from .versions import as_number, server_version
from .writing import Writer


class PreviewTransport:
    """Sends the reads of one controller; answers its writes from the overlay.

    A request that is neither a read nor a review of rights reaches the server only as
    a dry run. Events are answered and forgotten.
    """

    def __init__(
        self, inner: Transport, overlay: Overlay, controller: str, rng: random.Random
    ) -> None:
        """Take the transport to the server; it stays the caller's to close."""
        self._inner = inner
        self._overlay = overlay
        self._reader = Reader(overlay, inner)
        self._writer = Writer(overlay, inner, controller, rng)

    @property
    def host(self) -> str:
        """``host:port`` of the server."""
        return self._inner.host

    async def request(self, request: Request) -> Response:
        """Answer a request; see `Transport.request`."""
        target = find_target(request.path)
        if request.method in READS:
            if target is None:
                return await self._inner.request(request)
            return await self._reader.answer(target, request)
        if target is None:
            nowhere = Target(Collection("", ""), "")
            why = f"a preview does not send {request.method} {request.path}"
            code = HTTPStatus.METHOD_NOT_ALLOWED
            return refusal(nowhere, code, "MethodNotAllowed", why).answer
        if target.is_review and request.method == "POST":
            return await self._inner.request(request)
        request.before_write()
        if target.is_event:
            if request.method == "POST":
                return Response(HTTPStatus.CREATED, {}, request.body or b"{}")
            # The recorder then creates the whole event, with its new count.
            return not_found(target).answer
        return await self._writer.answer(target, request)

    async def stream(self, request: Request) -> Stream:
        """Open a watch of the view; see `Transport.stream`."""
        target = find_target(request.path)
        if target is None:
            return await self._inner.stream(request)
        query = dict(request.query)
        since = query.get("resourceVersion", "")
        changes = self._overlay.changes
        missed = changes.after(changes.shown_at(target.collection, since))
        is_initial = query.get("sendInitialEvents") == "true"
        if missed is None and not is_initial:
            return RefusedStream(expired(target).answer)
        number = self._overlay.changes.number
        stream = await self._inner.stream(to_server(request))
        if stream.status != HTTPStatus.OK:
            return stream
        merged = MergedStream(
            self._overlay,
            stream,
            target,
            request.query,
            0 if is_initial else as_number(server_version(since)),
            metadata_only=wants_metadata(request.headers.get("accept", "")),
        )
        if not is_initial:
            later = self._overlay.changes.after(number) or []
            for change in [*(missed or []), *later]:
                if change.key.collection == target.collection and merged.selects(
                    change
                ):
                    merged.add(change)
        return merged

    async def close(self) -> None:
        """Leave the connections open: they belong to the caller."""
