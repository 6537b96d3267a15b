"""GET: one object, a list, a watch."""

import asyncio
from functools import partial
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.query import (
    LATEST,
    check_list_options,
    decode_continue,
    encode_continue,
    is_true,
    wants_initial_events,
    whole_number,
)
from controller_manager.devcluster.storage import (
    Collection,
    Key,
    Stored,
    TooOldError,
    path_of,
)

from . import negotiation
from .kind import (
    Answers,
    Kind,
    Selection,
    all_in_version,
    in_version,
    parse_selection,
    settled,
)
from .objects import Objects, scale_of
from .request_info import Target, not_served
from .responses import JSON_HEADERS, Renderer, json_response, wrong_form
from .watching import FRAMES, EventForm, WatchRequest, WatchResponse

_DEFAULT_WATCH: Final = 1800
_READ: Final = frozenset(("get", "update"))
"""The verbs of a subresource that shows its whole object."""

_ONLY_STREAMS: Final = (
    "only the following media types are accepted: "
    f"{negotiation.JSON_TYPE};stream=watch, {negotiation.PROTOBUF_TYPE};stream=watch"
)
_UNCONTINUED: Final = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue "
    "token in this response to retrieve the remainder of the results. Continuing with "
    "the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may "
    "show up in the list."
)
_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
_VERSION_PATIENCE: Final = 3.0
"""The seconds that a list waits for a future resourceVersion."""


class Reader:
    """Answers requests that change nothing."""

    def __init__(self, objects: Objects, renderer: Renderer) -> None:
        self._objects = objects
        self._renderer = renderer
        self._storage = objects.storage
        self._clock = objects.clock

    async def get(self, target: Target, request: Request) -> Response:
        """Return one object, or a subresource of it; raises Refusal.

        The ``resourceVersion`` of the query is a minimum for the version of the server.
        """
        kind = target.kind
        accept = negotiation.header(request.headers, "accept")
        form = negotiation.wanted_form(accept, has_protobuf=not kind.is_custom)
        if form is negotiation.Form.METADATA_LIST:
            raise wrong_form(target, form, is_list=False)
        if least := target.query.get("resourceVersion"):
            await self._reach(
                self._collection(target), negotiation.parse_version(least)
            )
        asked, key = kind.within(Answers()), (target.namespace, target.name)
        stored = await settled(
            lambda: in_version(asked, self._objects.find(asked, *key))
        )
        match target.subresource:
            case "" | "status":
                body = self._renderer.encoded(target, stored, form)
                return Response(200, JSON_HEADERS, body)
            case "scale":
                return json_response(200, scale_of(kind, stored))
        part = kind.subresource(target.subresource)
        if part is None or part.kind != kind.kind or not {*part.verbs} >= _READ:
            raise not_served(target, "get")
        body = self._renderer.encoded(target, stored, form)
        return Response(200, JSON_HEADERS, body)

    async def list_or_watch(
        self, target: Target, request: Request
    ) -> Response | StreamingResponse:
        """Return a list or a watch; raises Refusal."""
        watches = is_true(target.query, "watch")
        if ("watch" if watches else "list") not in target.kind.verbs:
            raise statuses.method_not_allowed()
        selection = parse_selection(target.kind, target.query)
        answer_in = negotiation.accepted(
            negotiation.header(request.headers, "accept"),
            has_protobuf=not target.kind.is_custom,
        )
        form = answer_in.form
        check_list_options(target.query)
        if watches:
            if answer_in.media_type not in FRAMES:
                raise statuses.not_acceptable(_ONLY_STREAMS)
            return await self._watch(target, selection, answer_in)
        if form is negotiation.Form.METADATA:
            raise wrong_form(target, form, is_list=True)
        return await self._list(target, selection, form)

    def select(self, target: Target, selection: Selection) -> list[tuple[Key, Stored]]:
        """Return the selected present objects in order, by key.

        Raises Refusal and Pending if a webhook converts them.
        """
        collection, kind = self._collection(target), target.kind
        if kind.converter is None:
            found = collection.selected(target.namespace, selection.matches)
            return [(key, in_version(kind, stored)) for key, stored in found]
        every = collection.selected(target.namespace, lambda _: True)
        shown = all_in_version(kind, [stored for _, stored in every])
        keys = (key for key, _ in every)
        return [
            (key, stored)
            for key, stored in zip(keys, shown, strict=True)
            if selection.matches(stored.obj)
        ]

    def _collection(self, target: Target) -> Collection:
        return self._storage.collection(target.kind.stored.resource)

    # Lists

    async def _list(
        self, target: Target, selection: Selection, form: negotiation.Form
    ) -> Response:
        start, version, exact = await self._position(target)
        limit = _limit(target)
        try:
            found = self._collection(target).ordered(target.namespace, start, exact)
        except TooOldError:
            raise _too_old(target) from None
        page: list[Stored] = []
        last = start
        metadata: JSON = {"resourceVersion": str(version)}
        shown = iter(found)
        if target.kind.converter:
            # Where everything is selected, the objects of later pages are not shown.
            most = limit if limit > 0 and selection.is_everything else None
            shown = iter(await _converted(target.kind, found, most))
        for key, stored in shown:
            if not selection.matches(stored.obj):
                continue
            if 0 < limit == len(page):
                metadata["continue"] = encode_continue(version, last)
                if selection.is_everything:
                    metadata["remainingItemCount"] = len(found) - len(page)
                break
            page.append(in_version(target.kind, stored))
            last = path_of(key)
        return self._renderer.page(target, page, metadata, form)

    async def _position(self, target: Target) -> tuple[str, int, int | None]:
        """Return the key after which a list starts, its version, and the past version.

        The last is `None` for a list of the present state. Raises Refusal.
        """
        query = target.query
        collection = self._collection(target)
        wanted = query.get("resourceVersion", "")
        if token := query.get("continue"):
            exact, start = decode_continue(token)
            if wanted not in ("", "0"):
                raise statuses.bad_request(
                    "specifying resource version is not allowed when using continue"
                )
            if exact == LATEST:
                return start, collection.version, None
            return start, exact, exact
        if not wanted:
            return "", collection.version, None
        number = negotiation.parse_version(wanted)
        await self._reach(collection, number)
        match = query.get("resourceVersionMatch")
        # A limit has always meant the exact version, unless the query says otherwise.
        if match == "Exact" or (not match and number and _limit(target) > 0):
            return "", number, number
        return "", collection.version, None

    async def _reach(self, collection: Collection, version: int) -> None:
        """Wait a moment for a future version; raises Refusal."""
        deadline = self._clock.monotonic() + _VERSION_PATIENCE
        while version > collection.version:
            if self._clock.monotonic() >= deadline:
                raise statuses.too_large_version(version, collection.version)
            await asyncio.sleep(0.1)

    # Watches

    async def _watch(
        self, target: Target, selection: Selection, answer_in: negotiation.Accepted
    ) -> StreamingResponse | Response:
        query, frame = target.query, FRAMES[answer_in.media_type]
        wanted = query.get("resourceVersion", "")
        number = negotiation.parse_version(wanted) if wanted else 0
        sends_initial = wants_initial_events(query)
        from_now = number == 0 or sends_initial
        collection = self._collection(target)
        since = collection.version
        try:
            watcher = collection.watch(since if from_now else number)
        except TooOldError as error:
            body = frame.error(statuses.expired(str(error)).status())
            return Response(200, {"content-type": frame.content_type}, body)
        try:
            initial = await self._initial(target, selection) if sends_initial else []
        except BaseException:
            watcher.close()
            raise
        bookmarks = is_true(query, "allowWatchBookmarks")
        shown = EventForm(answer_in.form, partial(self._renderer.event, target))
        timeout = whole_number(query, "timeoutSeconds", 0)
        return WatchResponse(
            WatchRequest(
                kind=target.kind,
                namespace=target.namespace,
                selection=selection,
                timeout=float(timeout if timeout > 0 else _DEFAULT_WATCH),
                bookmarks=bookmarks,
                encode=shown.encoded,
                encode_bookmark=shown.bookmark,
                frame=frame,
            ),
            watcher,
            initial,
            since,
            ends_initial=sends_initial and bookmarks,
            version=lambda: collection.version,
            clock=self._clock,
        )

    async def _initial(self, target: Target, selection: Selection) -> list[Stored]:
        """Return the selected objects of this moment; raises Refusal."""
        kind = target.kind
        if kind.converter is None:
            return [stored for _, stored in self.select(target, selection)]
        found = self._collection(target).selected(target.namespace, lambda _: True)
        shown = await _converted(kind, found, None)
        return [stored for _, stored in shown if selection.matches(stored.obj)]


async def _converted(
    kind: Kind, found: list[tuple[Key, Stored]], most: int | None
) -> list[tuple[Key, Stored]]:
    asked, first = kind.within(Answers()), found[:most]
    objects = [stored for _, stored in first]
    shown = await settled(lambda: all_in_version(asked, objects))
    keys = [key for key, _ in first]
    return [*zip(keys, shown, strict=True), *found[len(first) :]]


def _limit(target: Target) -> int:
    """Return the most objects in a page; 0 for all.

    The watch cache of a real API server ignores the limit of a list of any version
    (``resourceVersion=0``).
    """
    limit = whole_number(target.query, "limit", 0)
    is_any = target.query.get("resourceVersion") == "0"
    return 0 if is_any and "continue" not in target.query else limit


def _too_old(target: Target) -> statuses.Refusal:
    """Return the refusal of a list of a version that is no longer in the history."""
    token = target.query.get("continue")
    if not token:
        return statuses.expired(_TOO_OLD)
    return statuses.expired(
        _UNCONTINUED, encode_continue(LATEST, decode_continue(token)[1])
    )
