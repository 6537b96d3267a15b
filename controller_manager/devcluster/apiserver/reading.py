"""GET: one object, a list, a watch."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import Clock
from controller_manager.devcluster.apiserver import negotiation
from controller_manager.devcluster.apiserver.request_info import (
    LATEST,
    check_list_options,
    decode_continue,
    encode_continue,
    is_true,
    wants_initial_events,
    whole_number,
)
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import encode, encode_event
from controller_manager.devcluster.scheme.protobuf_decoder import ProtobufError
from controller_manager.devcluster.scheme.statuses import Refusal, expired
from controller_manager.devcluster.storage import (
    Change,
    Collection,
    Key,
    Stored,
    TooOldError,
    Watcher,
    path_of,
)

from .kind import (
    Answers,
    Kind,
    Selection,
    all_in_version,
    in_version,
    parse_selection,
    settled,
)
from .negotiation import JSON_TYPE, PROTOBUF_TYPE, Form
from .objects import Objects, scale_of
from .request_info import Target, not_served
from .responses import JSON_HEADERS, Renderer, json_response, partial, wrong_form

# The form of objects in the events of a watch.


class _EventForm:
    """Encodes the objects of one watch.

    Only the first table of a watch shows its columns (watchEmbeddedEncoder in
    endpoints/handlers/response.go).
    """

    def __init__(self, renderer: Renderer, target: Target, form: Form) -> None:
        self._renderer = renderer
        self._target = target
        self._form = form
        self._headers = True

    def encoded(self, stored: Stored) -> bytes:
        shows_columns, self._headers = self._headers, False
        return self._renderer.event(
            self._target, stored, self._form, headers=shows_columns
        )

    def bookmark(self, obj: JSON) -> bytes:
        """Return the object of a bookmark, which has little more than metadata.

        A table has no rows then.
        """
        match self._form:
            case Form.FULL:
                return msgspec.json.encode(obj)
            case Form.TABLE:
                return msgspec.json.encode(
                    {
                        "kind": "Table",
                        "apiVersion": "meta.k8s.io/v1",
                        "metadata": obj["metadata"],
                        "columnDefinitions": None,
                        "rows": [],
                    }
                )
        return msgspec.json.encode(partial(obj))


# Watches: answers that stay open and send events.

BOOKMARK_INTERVAL: Final = 60.0
"""Seconds between bookmarks, if the request allows them."""

_BEFORE_END: Final = 2.0
"""The seconds between the last bookmark and the end of a watch."""

_BATCH: Final = 50
"""The number of initial events in one chunk."""

_TICK: Final = 1e-3
"""The seconds that a clock may be behind when the timer of a deadline fires."""


class Frame:
    """Writes the events of a watch as JSON, one on each line."""

    content_type = JSON_TYPE

    def event(self, event_type: str, obj: bytes) -> bytes:
        """Return an event with an object that is encoded as JSON."""
        return b'{"type":"%s","object":%s}\n' % (event_type.encode(), obj)

    def error(self, status: JSON) -> bytes:
        """Return the event that ends a watch with an error."""
        return self.event("ERROR", msgspec.json.encode(status))


class _ProtobufFrame(Frame):
    """Writes the events of a watch as protobuf, each with its length."""

    content_type = f"{PROTOBUF_TYPE};stream=watch"

    def event(self, event_type: str, obj: bytes) -> bytes:
        try:
            encoded = encode(msgspec.json.decode(obj), built_in())
        except ProtobufError as error:
            message = f"Internal error occurred: {error}"
            return self.error(Refusal(500, "InternalError", message).status())
        return encode_event(event_type, encoded or b"")


FRAMES: Final[Mapping[str, Frame]] = {
    JSON_TYPE: Frame(),
    PROTOBUF_TYPE: _ProtobufFrame(),
}
"""The forms of the events of a watch, by the media type that a client accepts."""


def frame_of(content_type: str) -> Frame:
    """Return the form of the events in an answer with a content type."""
    return FRAMES[content_type.partition(";")[0]]


@dataclass(slots=True)
class _Watch:
    """A stream of events: the initial events, then those of the watcher.

    `since` is the version at which `initial` is complete; `timeout` is in seconds.
    """

    kind: Kind
    namespace: str
    selection: Selection
    timeout: float
    bookmarks: bool
    form: _EventForm
    frame: Frame
    watcher: Watcher
    initial: list[Stored]
    since: int
    ends_initial: bool
    version: Callable[[], int]
    clock: Clock

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield events until the timeout; events that wait are sent together."""
        try:
            async with aclosing(self._chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            self.watcher.close()

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        start = self.clock.monotonic()
        end = start + self.timeout
        bookmark_at = self._bookmark_time(start, end)
        # A bookmark promises that all events up to its version have been sent. While a
        # slow reader takes a chunk, the version grows.
        version = self.since
        for start in range(0, len(self.initial), _BATCH):
            some = self.initial[start : start + _BATCH]
            yield b"".join(self._line("ADDED", stored) for stored in some)
        if self.ends_initial:
            yield self._bookmark(version, initial=True)
        while True:
            if self.watcher.has_expired():
                why = TooOldError(self.since, self.version())
                yield self.frame.error(expired(str(why)).status())
                return
            changes, version = self.watcher.take(), self.version()
            if changes and self.kind.converter:
                try:
                    changes = await self._converted(changes)
                except Refusal as refusal:
                    yield self.frame.error(refusal.status())
                    return
            if chunk := b"".join(map(self._event, changes)):
                yield chunk
            if self.watcher.has_expired():
                continue  # while the chunk was sent
            now = self.clock.monotonic()
            if now + _TICK >= end:
                return
            if now + _TICK >= bookmark_at:
                bookmark_at = self._bookmark_time(now + _TICK, end)
                yield self._bookmark(version, initial=False)
                continue
            try:
                async with asyncio.timeout(min(end, bookmark_at) - now):
                    await self.watcher.wait()
            except TimeoutError:
                continue

    async def _converted(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes of the watch in its version, with one call of a webhook.

        Raises Refusal.
        """
        seen = [each for each in changes if self.namespace in ("", each.key[0])]
        after = [each.after for each in seen]
        before = [each.before for each in seen if each.before is not None]
        kind = self.kind.within(Answers())
        shown = await settled(lambda: all_in_version(kind, [*after, *before]))
        later, earlier = iter(shown), iter(shown[len(after) :])
        return [
            msgspec.structs.replace(
                each, after=next(later), before=next(earlier) if each.before else None
            )
            for each in seen
        ]

    def _bookmark_time(self, now: float, end: float) -> float:
        """Return the time of the next bookmark: in a minute, or just before the end.

        From the last bookmark, a client can start the next watch (cache_watcher.go).
        """
        if not self.bookmarks:
            return math.inf
        due = min(now + BOOKMARK_INTERVAL, end - _BEFORE_END)
        return due if due > now else math.inf

    async def close(self) -> None:
        self.watcher.close()

    def _event(self, change: Change) -> bytes:
        """Return the line of a change for this watch, empty for unselected objects.

        An object that becomes selected is ADDED. One that is no longer selected is
        DELETED, in its last selected state but with the version of the change.
        """
        if self.namespace and change.key[0] != self.namespace:
            return b""
        selected = self.selection.matches(change.after.obj)
        is_now = selected and change.type != "DELETED"
        before = change.before
        was = before is not None and (
            selected
            if self.selection.sees_same(before.obj, change.after.obj)
            else self.selection.matches(before.obj)
        )
        if is_now:
            return self._line("MODIFIED" if was else "ADDED", change.after)
        if not was or change.before is None:
            return b""
        metadata = {
            **change.before.obj["metadata"],
            "resourceVersion": str(change.version),
        }
        last = Stored({**change.before.obj, "metadata": metadata}, change.version)
        return self._line("DELETED", last)

    def _line(self, event_type: str, stored: Stored) -> bytes:
        return self.frame.event(event_type, self.form.encoded(stored))

    def _bookmark(self, version: int, *, initial: bool) -> bytes:
        metadata: JSON = {"resourceVersion": str(version)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: JSON = {
            **self.kind.head,
            "metadata": metadata,
            **self.kind.strategy.empty,
        }
        return self.frame.event("BOOKMARK", self.form.bookmark(obj))


# GET: one object, a list, a watch.

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
        form = negotiation.accepted(accept, has_protobuf=not kind.is_custom).form
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
        timeout = whole_number(query, "timeoutSeconds", 0)
        watch = _Watch(
            kind=target.kind,
            namespace=target.namespace,
            selection=selection,
            timeout=float(timeout if timeout > 0 else _DEFAULT_WATCH),
            bookmarks=bookmarks,
            form=_EventForm(self._renderer, target, answer_in.form),
            frame=frame,
            watcher=watcher,
            initial=initial,
            since=since,
            ends_initial=sends_initial and bookmarks,
            version=lambda: collection.version,
            clock=self._clock,
        )
        headers = {"content-type": frame.content_type}
        return StreamingResponse(watch.chunks(), headers, close=watch.close)

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
