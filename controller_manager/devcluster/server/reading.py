"""GET: one object, a list, a watch."""

import asyncio
from typing import Any, Final

import msgspec

from controller_manager.client.inmemory import StreamingResponse
from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.server.continue_token import (
    decode_continue,
    encode_continue,
)
from controller_manager.devcluster.server.conversion import in_version
from controller_manager.devcluster.server.negotiation import (
    Form,
    header,
    parse_version,
    wanted_form,
)
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.query import (
    check_list_options,
    is_true,
    whole_number,
)
from controller_manager.devcluster.server.responses import (
    JSON_HEADERS,
    encode_list,
    json_response,
)
from controller_manager.devcluster.server.routing import Target
from controller_manager.devcluster.server.scale import scale_of
from controller_manager.devcluster.server.selection import Selection, parse_selection
from controller_manager.devcluster.server.statuses import (
    expired,
    method_not_allowed,
    not_implemented,
    too_large_version,
)
from controller_manager.devcluster.server.storage import Key, Stored, TooOldError
from controller_manager.devcluster.server.tables import partial, table
from controller_manager.devcluster.server.watching import (
    WatchRequest,
    WatchResponse,
    error_event,
)

JSON = dict[str, Any]

_DEFAULT_WATCH: Final = 1800
_VERSION_PATIENCE: Final = 3.0
"""Seconds for which a list waits for a resourceVersion that is not reached yet."""


class Reader:
    """Answers requests that change nothing."""

    def __init__(self, objects: Objects) -> None:
        """Take the stored objects."""
        self._objects = objects
        self._storage = objects.storage
        self._clock = objects.clock

    def get(self, target: Target, request: Request) -> Response:
        """Return one object, or a subresource of it; raises Refusal."""
        kind = target.kind
        form = wanted_form(header(request.headers, "accept"))
        found = self._objects.find(kind, target.namespace, target.name)
        stored = in_version(kind, found)
        match target.subresource:
            case "" | "status":
                body = self._encoded(target, stored, form)
                return Response(200, JSON_HEADERS, body)
            case "scale":
                return json_response(200, scale_of(kind, stored))
        part = kind.subresource(target.subresource)
        if part is not None and part.replace is not None and "get" in part.verbs:
            body = self._encoded(target, stored, form)
            return Response(200, JSON_HEADERS, body)
        raise not_implemented(f"{kind.plural}/{target.subresource}")

    async def list_or_watch(
        self, target: Target, request: Request
    ) -> Response | StreamingResponse:
        """Return a list or a watch; raises Refusal."""
        if "list" not in target.kind.verbs:
            raise method_not_allowed()
        selection = parse_selection(target.kind, target.query)
        form = wanted_form(header(request.headers, "accept"))
        check_list_options(target.query)
        if is_true(target.query, "watch"):
            return self._watch(target, selection, form)
        return await self._list(target, selection, form)

    def select(
        self, target: Target, selection: Selection, version: int | None
    ) -> list[tuple[Key, Stored]]:
        """Return the selected objects by key, as of a version, `None` for now.

        Raises Refusal 410.
        """
        collection = self._storage.collection(target.kind.stored.resource)
        try:
            snapshot = collection.snapshot(version)
        except TooOldError:
            message = (
                "The provided continue parameter is too old to display a consistent "
                "list result. You can start a new list without the continue parameter."
            )
            raise expired(message) from None
        return sorted(
            (
                (key, in_version(target.kind, stored))
                for key, stored in snapshot.items()
                if (not target.namespace or key[0] == target.namespace)
                and selection.matches(stored.obj)
            ),
            key=lambda entry: entry[0],
        )

    def _encoded(self, target: Target, stored: Stored, form: Form) -> bytes:
        match form:
            case Form.METADATA:
                return msgspec.json.encode(partial(stored.obj))
            case Form.TABLE:
                version = str(stored.obj["metadata"]["resourceVersion"])
                shown = self._table(target, [stored], {"resourceVersion": version})
                return msgspec.json.encode(shown)
        return stored.encoded

    def _table(self, target: Target, items: list[Stored], metadata: JSON) -> JSON:
        include = target.query.get("includeObject", "Metadata")
        return table(target.kind, items, self._clock.now(), include, metadata)

    # Lists

    async def _list(self, target: Target, selection: Selection, form: Form) -> Response:
        limit = whole_number(target.query, "limit", 0)
        start, version, exact = await self._position(target)
        items = self.select(target, selection, exact)
        remaining = [stored for key, stored in items if _path(key) > start]
        page = remaining[:limit] if limit else remaining
        metadata: JSON = {"resourceVersion": str(version)}
        if len(page) < len(remaining):
            last = page[-1].obj["metadata"]
            key = (last.get("namespace", ""), last["name"])
            metadata["continue"] = encode_continue(version, _path(key))
            if selection.is_everything:
                metadata["remainingItemCount"] = len(remaining) - len(page)
        return self._page(target, page, metadata, form)

    async def _position(self, target: Target) -> tuple[str, int, int | None]:
        """Return the key after which a list starts, its version, and the past version.

        The last is `None` for a list of the present state. Raises Refusal.
        """
        query = target.query
        if token := query.get("continue"):
            exact, start = decode_continue(token)
            return start, exact, exact
        wanted = query.get("resourceVersion", "")
        if not wanted:
            return "", self._storage.version, None
        number = parse_version(wanted)
        await self._reach(number)
        if query.get("resourceVersionMatch") == "Exact":
            return "", number, number
        return "", self._storage.version, None

    async def _reach(self, version: int) -> None:
        """Wait a moment for a version that is not reached yet; raises Refusal."""
        deadline = self._clock.monotonic() + _VERSION_PATIENCE
        while version > self._storage.version:
            if self._clock.monotonic() >= deadline:
                raise too_large_version(version, self._storage.version)
            await asyncio.sleep(0.1)

    def _page(
        self, target: Target, page: list[Stored], metadata: JSON, form: Form
    ) -> Response:
        match form:
            case Form.TABLE:
                return json_response(200, self._table(target, page, metadata))
            case Form.METADATA:
                return json_response(
                    200,
                    {
                        "kind": "PartialObjectMetadataList",
                        "apiVersion": "meta.k8s.io/v1",
                        "metadata": metadata,
                        "items": [partial(stored.obj) for stored in page],
                    },
                )
        return Response(200, JSON_HEADERS, encode_list(target.kind, page, metadata))

    # Watches

    def _watch(
        self, target: Target, selection: Selection, form: Form
    ) -> StreamingResponse | Response:
        query = target.query
        wanted = query.get("resourceVersion", "")
        number = parse_version(wanted) if wanted else 0
        ends_initial = is_true(query, "sendInitialEvents")
        from_now = number == 0 or ends_initial
        collection = self._storage.collection(target.kind.stored.resource)
        # Without a version, or with 0, the watch begins with the present objects.
        initial = self.select(target, selection, None) if from_now else []
        try:
            watcher = collection.watch(self._storage.version if from_now else number)
        except TooOldError as error:
            body = error_event(expired(str(error)).status())
            return Response(200, JSON_HEADERS, body)
        return WatchResponse(
            WatchRequest(
                kind=target.kind,
                namespace=target.namespace,
                selection=selection,
                timeout=float(whole_number(query, "timeoutSeconds", _DEFAULT_WATCH)),
                bookmarks=is_true(query, "allowWatchBookmarks"),
                encode=lambda stored: self._event(target, stored, form),
            ),
            watcher,
            [stored for _, stored in initial],
            self._storage.version,
            ends_initial=ends_initial,
            version=lambda: self._storage.version,
            clock=self._clock,
        )

    def _event(self, target: Target, stored: Stored, form: Form) -> bytes:
        return self._encoded(target, in_version(target.kind, stored), form)


def _path(key: Key) -> str:
    return "/".join(key)
