"""The form of objects in the events of a watch."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.clock import Clock
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import encode, encode_event
from controller_manager.devcluster.scheme.protobuf_decoder import ProtobufError
from controller_manager.devcluster.scheme.statuses import Refusal, expired
from controller_manager.devcluster.storage import Change, Stored, TooOldError, Watcher

from .kind import Answers, Kind, Selection, all_in_version, settled
from .negotiation import JSON_TYPE, PROTOBUF_TYPE, Form
from .responses import partial

# The form of objects in the events of a watch.


class Encode(Protocol):
    """Encodes an object in a form; `headers` says whether a table shows its columns."""

    def __call__(self, stored: Stored, form: Form, *, headers: bool) -> bytes:
        """Return the encoded object."""


class EventForm:
    """Encodes the objects of one watch.

    Only the first table of a watch shows its columns (watchEmbeddedEncoder in
    endpoints/handlers/response.go).
    """

    def __init__(self, form: Form, encode: Encode) -> None:
        self._form = form
        self._encode = encode
        self._headers = True

    def encoded(self, stored: Stored) -> bytes:
        """Return the object of an event."""
        encoded = self._encode(stored, self._form, headers=self._headers)
        self._headers = False
        return encoded

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


class ProtobufFrame(Frame):
    """Writes the events of a watch as protobuf, each with its length."""

    content_type = f"{PROTOBUF_TYPE};stream=watch"

    def event(self, event_type: str, obj: bytes) -> bytes:
        """Return an event with an object that is encoded as JSON."""
        try:
            encoded = encode(msgspec.json.decode(obj), built_in())
        except ProtobufError as error:
            message = f"Internal error occurred: {error}"
            return self.error(Refusal(500, "InternalError", message).status())
        return encode_event(event_type, encoded or b"")


FRAMES: Final[Mapping[str, Frame]] = {
    JSON_TYPE: Frame(),
    PROTOBUF_TYPE: ProtobufFrame(),
}
"""The forms of the events of a watch, by the media type that a client accepts."""


def frame_of(content_type: str) -> Frame:
    """Return the form of the events in an answer with a content type."""
    return FRAMES[content_type.partition(";")[0]]


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """The objects to watch, and their encoding; `timeout` is in seconds."""

    kind: Kind
    namespace: str
    selection: Selection
    timeout: float
    bookmarks: bool
    encode: Callable[[Stored], bytes]
    encode_bookmark: Callable[[JSON], bytes]
    frame: "Frame"


@dataclass(slots=True)
class WatchResponse:
    """A stream of events: the initial events, then those of the watcher.

    `since` is the version at which `initial` is complete.
    """

    request: WatchRequest
    watcher: Watcher
    initial: list[Stored]
    since: int
    ends_initial: bool
    version: Callable[[], int]
    clock: Clock
    status: int = 200

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the answer."""
        return {"content-type": self.request.frame.content_type}

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
        end = start + self.request.timeout
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
                yield self.request.frame.error(expired(str(why)).status())
                return
            changes, version = self.watcher.take(), self.version()
            if changes and self.request.kind.converter:
                try:
                    changes = await self._converted(changes)
                except Refusal as refusal:
                    yield self.request.frame.error(refusal.status())
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
        namespace = self.request.namespace
        seen = [each for each in changes if namespace in ("", each.key[0])]
        after = [each.after for each in seen]
        before = [each.before for each in seen if each.before is not None]
        kind = self.request.kind.within(Answers())
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
        if not self.request.bookmarks:
            return math.inf
        due = min(now + BOOKMARK_INTERVAL, end - _BEFORE_END)
        return due if due > now else math.inf

    async def close(self) -> None:
        """Stop watching."""
        self.watcher.close()

    def _event(self, change: Change) -> bytes:
        """Return the line of a change for this watch, empty for unselected objects.

        An object that becomes selected is ADDED. One that is no longer selected is
        DELETED, in its last selected state but with the version of the change.
        """
        request = self.request
        if request.namespace and change.key[0] != request.namespace:
            return b""
        selected = request.selection.matches(change.after.obj)
        is_now = selected and change.type != "DELETED"
        before = change.before
        was = before is not None and (
            selected
            if request.selection.sees_same(before.obj, change.after.obj)
            else request.selection.matches(before.obj)
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
        return self.request.frame.event(event_type, self.request.encode(stored))

    def _bookmark(self, version: int, *, initial: bool) -> bytes:
        kind = self.request.kind
        metadata: JSON = {"resourceVersion": str(version)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: JSON = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": metadata,
            **kind.strategy.empty,
        }
        return self.request.frame.event("BOOKMARK", self.request.encode_bookmark(obj))
