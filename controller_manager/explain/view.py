"""The objects around a target, read on demand, and the events about them."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from math import inf
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.core.v1 import EVENTS, PODS
from controller_manager.api.json_objects import JSON, object_at, objects_at
from controller_manager.api.meta import AnyResource, InvalidPathSegment
from controller_manager.api.scalars import parse_time
from controller_manager.api.selectors import LabelSelector, format_selector
from controller_manager.client.discovery.resources import Discovery, discover
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.request import ServerClock

from .cause import Item, number_at, text_at

MOST: Final = 500
"""The most objects that one list returns: an explanation needs examples, not all."""

_OVER: Final = "not read, because the time was over"

_FAILURES: Final = (
    errors.APIError,
    InvalidPathSegment,
    errors.ProtocolError,
    TimeoutError,
    errors.TransportError,
)


class Unread(Exception):
    """An object cannot be read; the message is one line with the reason."""


class Missing(Unread):
    """The server says that an object does not exist."""


class _TimeOverError(TimeoutError):
    """The time of the whole answer is over."""


class _Loaded:
    """The answers of the API server: objects, and a line about each failure."""

    def __init__(self) -> None:
        self.lists: dict[tuple[str, ...], tuple[tuple[Item, ...], str]] = {}
        self.objects: dict[tuple[str, ...], tuple[Item | str | None, str]] = {}
        self.discovery: tuple[Discovery, str] | None = None
        self._locks: dict[tuple[str, ...], asyncio.Lock] = {}

    def reading(self, *key: str) -> asyncio.Lock:
        """Return the lock of a read: tasks that need the same answer share it."""
        return self._locks.setdefault(key, asyncio.Lock())


class View:
    """The objects that an explanation reads, and the present time.

    Each object and each list is read once, so that an explanation does not contradict
    itself. A request takes `timeout` seconds at most. A list has `MOST` objects at
    most. A request that fails is noted in `unread`, and its objects count as unknown.
    Once `seconds` have passed, nothing more is read; 0 is never.

    With `by_list` a single object is read as a list of one: a controller manager may
    list every resource, but get only few.
    """

    def __init__(
        self,
        client: Client,
        clock: ServerClock,
        timeout: float,
        *,
        seconds: float = 0,
        by_list: bool = False,
    ) -> None:
        self._client = client
        self._end = asyncio.get_running_loop().time() + seconds if seconds else inf
        self._by_list = by_list
        self._clock = clock
        self._timeout = timeout
        self._loaded = _Loaded()
        self._unread: dict[str, None] = {}
        self._is_cut = False

    def beside(self) -> "View":
        """Return a view for another target, which shares all that was read.

        Only `unread` and `is_cut` are its own.
        """
        view = View(self._client, self._clock, self._timeout, by_list=self._by_list)
        view._loaded, view._end = self._loaded, self._end
        return view

    @property
    def is_over(self) -> bool:
        """Tell whether the time of the whole answer is over."""
        return asyncio.get_running_loop().time() >= self._end

    @property
    def is_cut(self) -> bool:
        """Tell whether an answer lacks objects because the time was over."""
        return self._is_cut

    @property
    def now(self) -> datetime:
        """The present time of the server."""
        return self._clock.now()

    @property
    def unread(self) -> tuple[str, ...]:
        """A line for each request that was refused or failed."""
        return tuple(self._unread)

    def age(self, since: str) -> timedelta:
        """Return the time that has passed since a time of RFC 3339, 0 for none."""
        return max(self.now - parse_time(since), timedelta()) if since else timedelta()

    def note(self, line: str) -> None:
        """Note that something cannot be read; an empty line notes nothing."""
        if line:
            self._unread[line] = None
            self._is_cut = self._is_cut or line.endswith(_OVER)

    async def read(
        self, resource: AnyResource, namespace: str, name: str, subresource: str = ""
    ) -> Item:
        """Return an object, or a subresource such as its ``scale``.

        Raises Unread if it does not exist or cannot be read.
        """
        key = (resource.api_version, resource.plural, namespace, name, subresource)
        loaded = self._loaded
        async with loaded.reading("object", *key):
            if key not in loaded.objects:
                loaded.objects[key] = await self._read(
                    resource, namespace, name, subresource
                )
        found, problem = loaded.objects[key]
        self.note(problem)
        if isinstance(found, Item):
            return found
        if found is not None:
            raise Unread(found)
        place = f" in the namespace {namespace}" if namespace else ""
        msg = f"there is no {resource.group_resource} {name!a}{place}"
        raise Missing(msg)

    async def find(
        self, resource: AnyResource, namespace: str, name: str, subresource: str = ""
    ) -> Item | None:
        """Return an object, `None` if it does not exist or cannot be read."""
        try:
            return await self.read(resource, namespace, name, subresource)
        except Unread:
            return None

    async def is_missing(
        self, resource: AnyResource, namespace: str, name: str
    ) -> bool:
        """Tell whether the server says that an object does not exist."""
        await self.find(resource, namespace, name)
        key = (resource.api_version, resource.plural, namespace, name, "")
        return self._loaded.objects[key][0] is None

    async def list(
        self,
        resource: AnyResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        is_hint: bool = False,
    ) -> tuple[Item, ...]:
        """Return the objects that selectors match; none if they cannot be read.

        A hint is not needed for the answer, so its failure is not noted.
        """
        key = (resource.api_version, resource.plural, namespace, labels, fields)
        loaded = self._loaded
        async with loaded.reading("list", *key):
            if key not in loaded.lists:
                query = (
                    ("labelSelector", labels),
                    ("fieldSelector", fields),
                    ("limit", str(MOST)),
                )
                loaded.lists[key] = await self._list(resource, namespace, query)
        found, problem = loaded.lists[key]
        self.note("" if is_hint else problem)
        return found

    def is_whole(
        self,
        resource: AnyResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> bool:
        """Tell whether a list that was read has all objects.

        From another one, nothing follows from an object that it lacks.
        """
        key = (resource.api_version, resource.plural, namespace, labels, fields)
        _, problem = self._loaded.lists[key]
        return not problem

    async def discovery(self) -> Discovery:
        """Return the resources that the server serves; none if they are unread."""
        loaded = self._loaded
        async with loaded.reading("discovery"):
            if loaded.discovery is None:
                loaded.discovery = await self._discover()
        found, problem = loaded.discovery
        self.note(problem)
        return found

    async def _discover(self) -> tuple[Discovery, str]:
        try:
            async with self._in_time():
                return await discover(self._client), ""
        except _FAILURES as error:
            return Discovery(()), f"the resources of the API server: {_why(error)}"

    async def _read(
        self, resource: AnyResource, namespace: str, name: str, subresource: str
    ) -> tuple[Item | str | None, str]:
        try:
            found = await self._one(resource, namespace, name, subresource)
        except errors.NotFound:
            return None, ""
        except _FAILURES as error:
            line = f"{resource.group_resource} {name!a}: {_why(error)}"
            return line, line
        return None if found is None else Item(resource, found), ""

    async def _one(
        self, resource: AnyResource, namespace: str, name: str, subresource: str
    ) -> JSON | None:
        """Return one object, `None` if a list shows that there is none."""
        path = resource.path(namespace, name, subresource)  # checks the name
        if subresource or not self._by_list:
            return await self._get(path, ())
        query = (("fieldSelector", f"metadata.name={name}"),)
        found = await self._get(resource.path(namespace), query)
        return next(objects_at(found, "items"), None)

    async def _list(
        self,
        resource: AnyResource,
        namespace: str,
        query: Iterable[tuple[str, str]],
    ) -> tuple[tuple[Item, ...], str]:
        place = f" in {namespace}" if namespace else ""
        try:
            given = tuple((name, value) for name, value in query if value)
            found = await self._get(resource.path(namespace), given)
        except _FAILURES as error:
            return (), f"{resource.group_resource}{place}: {_why(error)}"
        items = tuple(Item(resource, each) for each in objects_at(found, "items"))
        if object_at(found, "metadata").get("continue"):
            name = resource.group_resource
            return items, f"{name}{place}: only the first {MOST} were read"
        return items, ""

    async def _get(self, path: str, query: tuple[tuple[str, str], ...]) -> JSON:
        async with self._in_time():
            return await self._client.read(path, dict[str, Any], query)

    @asynccontextmanager
    async def _in_time(self) -> AsyncGenerator[None]:
        """Bound a request; raises TimeoutError, and sends none after the last time."""
        if self.is_over:
            raise _TimeOverError
        end = min(asyncio.get_running_loop().time() + self._timeout, self._end)
        try:
            async with asyncio.timeout_at(end):
                yield
        except TimeoutError:
            if self.is_over:
                raise _TimeOverError from None
            raise


def _why(error: Exception) -> str:
    """Return the reason of a failed request in one line."""
    if isinstance(error, _TimeOverError):
        return _OVER
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, errors.Forbidden):
        return f"may not be read: {' '.join(str(error).split())}"
    return " ".join(str(error).split())


class Event(Struct, frozen=True):
    """An event: its reason, its message, and the time at which it was last seen.

    `field` names the part of the object, such as ``spec.containers{web}``. It was seen
    `count` times since `first`, by the component `source`.
    """

    reason: str
    message: str
    at: str
    field: str = ""
    is_warning: bool = False
    count: int = 1
    first: str = ""
    source: str = ""


async def events_of(
    view: View, item: Item, reasons: Collection[str] = (), *, is_hint: bool = False
) -> tuple[Event, ...]:
    """Return the events about an object with one of some reasons, the newest first.

    Without `reasons` all events are returned. Nothing is noted if a hint is unread.
    """
    fields = f"involvedObject.uid={item.uid}"
    place = item.namespace or "default"
    listed = await view.list(EVENTS, place, fields=fields, is_hint=is_hint)
    found = (event_of(each.json) for each in listed)
    wanted = [each for each in found if not reasons or each.reason in reasons]
    return tuple(sorted(wanted, key=lambda each: each.at, reverse=True))


def event_of(event: JSON) -> Event:
    """Return the event of an object of core/v1."""
    series = object_at(event, "series")
    times = (
        text_at(series, "lastObservedTime"),
        text_at(event, "lastTimestamp"),
        text_at(event, "eventTime"),
        text_at(object_at(event, "metadata"), "creationTimestamp"),
    )
    at = next((each for each in times if each), "")
    message = " ".join(text_at(event, "message").split())
    field = text_at(object_at(event, "involvedObject"), "fieldPath")
    begins = (text_at(event, "firstTimestamp"), text_at(event, "eventTime"), at)
    return Event(
        text_at(event, "reason"),
        message,
        at,
        field,
        is_warning=text_at(event, "type") == "Warning",
        count=max(number_at(series, "count"), number_at(event, "count"), 1),
        first=next(filter(None, begins), ""),
        source=text_at(object_at(event, "source"), "component")
        or text_at(event, "reportingComponent"),
    )


async def owned(
    view: View, owner: Item, resource: AnyResource, selector: LabelSelector | None
) -> tuple[Item, ...]:
    """Return the objects that a selector matches and that an owner controls."""
    labels = format_selector(selector)
    found = await view.list(resource, owner.namespace, labels=labels)
    return tuple(each for each in found if each.is_controlled_by(owner))


async def pods_of(
    view: View, owner: Item, selector: LabelSelector | None
) -> tuple[Item, ...]:
    """Return the pods that a selector matches and that an owner controls."""
    return await owned(view, owner, PODS, selector)


def has_all(
    view: View, owner: Item, resource: AnyResource, selector: LabelSelector | None
) -> bool:
    """Tell whether all objects that a selector matches were read."""
    labels = format_selector(selector)
    return view.is_whole(resource, owner.namespace, labels=labels)


def has_all_pods(view: View, owner: Item, selector: LabelSelector | None) -> bool:
    """Tell whether all pods that a selector matches were read."""
    return has_all(view, owner, PODS, selector)
