"""Watches: the events of the server, merged with the changes of the overlay."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec

from controller_manager.client.rest.serializer import INITIAL_EVENTS_END
from controller_manager.client.rest.transport import Query, Response, Stream

from .answers import partial
from .changes import Change
from .fields import JSON, as_number, viewed
from .overlay import Overlay
from .reading import of_item, selects, with_version
from .target import Collection, Target

_PATIENCE: Final = 1.0
"""Seconds that a watch waits until other watches have shown a change before it."""


class RefusedStream:
    """A watch that is refused."""

    def __init__(self, answer: Response) -> None:
        self._answer = answer

    @property
    def status(self) -> int:
        """The HTTP status code."""
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name."""
        return self._answer.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the refusal."""
        yield self._answer.body

    async def close(self) -> None:
        """Do nothing: there is no connection."""


class MergedStream:
    """A watch of the view; it follows the overlay from the start.

    `version` is the server's version up to which it has shown everything.
    """

    def __init__(
        self,
        overlay: Overlay,
        inner: Stream,
        target: Target,
        query: Query,
        version: int,
        *,
        metadata_only: bool,
    ) -> None:
        self._overlay = overlay
        self._inner = inner
        self._target = target
        self._query = query
        self._metadata_only = metadata_only
        given = dict(query)
        self._has_selector = "fieldSelector" in given or "labelSelector" in given
        self.version = version
        self._waiting: deque[Change] = deque()
        self._wakes = asyncio.Event()
        self.has_shown = asyncio.Event()
        """Set while the reader has processed all changes."""

        self.has_shown.set()
        self._rest = b""
        self._last = ""
        self._shown = 0
        overlay.changes.follow(self)

    @property
    def status(self) -> int:
        """The HTTP status code."""
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name."""
        return self._inner.headers

    @property
    def collection(self) -> Collection:
        """The resource that is watched."""
        return self._target.collection

    def selects(self, change: Change) -> bool:
        """Tell whether a change is in the namespace that is watched."""
        return self._target.namespace in ("", change.key.namespace)

    def add(self, change: Change) -> None:
        """Take a change that the watch has to show."""
        self._waiting.append(change)
        self.has_shown.clear()
        self._wakes.set()

    async def close(self) -> None:
        """Close the server's stream; follow no more."""
        self._overlay.changes.unfollow(self)
        if not self._waiting and self._last:
            self._overlay.changes.ended(self.collection, self._last, self._shown)
        self.has_shown.set()
        await self._inner.close()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield pieces of the body as they arrive; see `Stream.chunks`."""
        async with aclosing(self._inner.chunks()) as chunks:
            reading: asyncio.Future[bytes] | None = None
            try:
                while True:
                    if self._waiting:
                        yield b"".join(self._changes())
                        self._processed()
                        continue
                    if reading is None:
                        reading = asyncio.ensure_future(anext(chunks))
                    await self._wait(reading)
                    if reading.done():
                        finished, reading = reading, None
                        renames = self._overlay.creations.renames
                        lines = self._merged(finished.result())
                        if self._overlay.creations.renames != renames:
                            await self._others()
                        if lines:
                            yield b"".join(lines)
                            self._processed()
            except StopAsyncIteration:
                return
            finally:
                if reading is not None:
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)

    async def _wait(self, reading: "asyncio.Future[bytes]") -> None:
        """Wait for the server's next data or for a change."""
        self._wakes.clear()
        waking = asyncio.ensure_future(self._wakes.wait())
        try:
            await asyncio.wait((reading, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()

    def _processed(self) -> None:
        if not self._waiting:
            self.has_shown.set()

    async def _others(self) -> None:
        """Wait until other watches have shown the changes before these events.

        When the server's object replaces a created one, the objects that it owns must
        be shown with the new owner first.
        """
        others = [
            each
            for each in self._overlay.changes.all_followers()
            if each is not self and not each.has_shown.is_set()
        ]
        if others:
            waits = [asyncio.ensure_future(each.has_shown.wait()) for each in others]
            _, late = await asyncio.wait(waits, timeout=_PATIENCE)
            for each in late:
                each.cancel()

    def _changes(self) -> list[bytes]:
        """Return the lines of the changes that wait, in their order."""
        lines = []
        while self._waiting:
            change = self._waiting.popleft()
            is_there = change.obj is not None and selects(self._query, change.obj)
            kind = "MODIFIED" if is_there else "DELETED"
            obj = change.obj if change.obj is not None else change.last
            lines.append(self._line(kind, obj, viewed(self.version, change.number)))
        return lines

    def _line(self, kind: str, obj: JSON, version: str) -> bytes:
        self._last, self._shown = version, self._overlay.changes.number
        shown = partial(obj) if self._metadata_only else obj
        event = {"type": kind, "object": with_version(shown, version)}
        return msgspec.json.encode(event) + b"\n"

    def _merged(self, chunk: bytes) -> list[bytes]:
        """Return the lines of the view for data of the server."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        merged: list[bytes] = []
        for line in filter(None, lines):
            try:
                event = msgspec.json.decode(line)
            except msgspec.DecodeError:
                merged.append(line + b"\n")  # the reader reports it
                continue
            merged += self._event(event)
        return merged

    def _event(self, event: dict[str, Any]) -> list[bytes]:
        obj = event.get("object") or {}
        match event.get("type"):
            case "ADDED" | "MODIFIED" | "DELETED":
                return self._object(str(event["type"]), obj)
            case "BOOKMARK":
                return self._bookmark(obj)
        return [msgspec.json.encode(event) + b"\n"]

    def _bookmark(self, obj: JSON) -> list[bytes]:
        metadata = obj.get("metadata", {})
        lines = self._changes()
        stored = as_number(metadata.get("resourceVersion"))
        change = 0
        annotations = metadata.get("annotations") or {}
        if annotations.get(INITIAL_EVENTS_END) == "true":
            change = self._overlay.changes.number
            lines += self._invented()
        self.version = max(self.version, stored)
        self._last, self._shown = viewed(stored, change), self._overlay.changes.number
        bookmark = with_version(obj, self._last)
        event = {"type": "BOOKMARK", "object": bookmark}
        return [*lines, msgspec.json.encode(event) + b"\n"]

    def _invented(self) -> list[bytes]:
        """Return the created objects as the end of the initial list."""
        lines = []
        for entry in self._overlay.entries.invented(self._target):
            view = entry.view(None)
            if view is not None and selects(self._query, view):
                version = viewed(self.version, entry.change)
                lines.append(self._line("ADDED", view, version))
        return lines

    def _object(self, kind: str, obj: JSON) -> list[bytes]:
        """Return the lines for one object of the server, and changes before it."""
        target = of_item(self._target, obj)
        stored = as_number(obj.get("metadata", {}).get("resourceVersion"))
        self._observe(kind, target, obj)
        lines = self._changes()
        self.version = max(self.version, stored)
        if kind == "DELETED":
            return [*lines, self._deleted(target, obj, stored)]
        view = self._overlay.view(target.key, obj)
        if view is None:
            return [*lines, self._line("DELETED", obj, viewed(stored))]
        change = 0
        entry = self._overlay.entries.get(target.key)
        if entry is not None:
            known = (entry.real or {}).get("metadata", {}).get("resourceVersion")
            is_newest = as_number(known) == stored
            change = entry.change if is_newest else self._overlay.changes.next_number()
        return [*lines, self._line(kind, view, viewed(stored, change))]

    def _deleted(self, target: Target, obj: JSON, stored: int) -> bytes:
        """Return the event of a deletion; a created object of the name is shown."""
        entry = self._overlay.entries.get(target.key)
        if entry is not None and (view := entry.view(None)) is not None:
            return self._line("MODIFIED", view, viewed(stored, entry.change))
        return self._line("DELETED", obj, viewed(stored))

    def _observe(self, kind: str, target: Target, obj: JSON) -> None:
        self._overlay.absentees.observe(target, obj, is_new=kind == "ADDED")
        if kind == "DELETED":
            if not self._has_selector:
                self._overlay.observe_gone(target, obj)
        elif self._metadata_only:
            self._overlay.observe_ending(target, obj)
        else:
            self._overlay.observe(target, obj, is_new=kind == "ADDED")
