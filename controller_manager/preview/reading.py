"""Reads: the server's answers, with the overlay on top."""

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import msgspec

from controller_manager.api.selectors import SelectorError, parse_selector
from controller_manager.client.rest.transport import Query, Request, Response, Transport

from .answers import not_found, object_answer, partial, wants_metadata
from .entries import Entry
from .fields import JSON, REMOVED, as_number, server_version, value_at, viewed
from .overlay import Overlay
from .target import Target

_READ: Final = {"accept": "application/json"}


def to_server(request: Request) -> Request:
    """Return a read with the server's version instead of that of the view."""
    query = tuple(
        (name, server_version(value) if name == "resourceVersion" else value)
        for name, value in request.query
    )
    return replace(request, query=query)


def selects(query: Query, obj: JSON) -> bool:
    """Tell whether the selectors of a query select an object.

    A selector that cannot be read selects nothing: the server refuses it.
    """
    given = dict(query)
    if fields := given.get("fieldSelector"):
        for term in fields.split(","):
            name, is_unlike, wanted = _parted(term)
            found = value_at(obj, tuple(name.split(".")))
            text = "" if found is REMOVED else str(found)
            if (text == wanted) is is_unlike:
                return False
    if labels := given.get("labelSelector"):
        try:
            selector = parse_selector(labels)
        except SelectorError:
            return False
        return selector.matches(obj.get("metadata", {}).get("labels") or {})
    return True


def _parted(term: str) -> tuple[str, bool, str]:
    """Return the field of a term, whether it must be unlike, and the value."""
    name, unlike, value = term.partition("!=")
    if unlike:
        return name, True, value
    name, _, value = term.partition("=")
    return name, False, value.removeprefix("=")


class Reader:
    """Answers reads of one transport."""

    def __init__(self, overlay: Overlay, inner: Transport) -> None:
        self._overlay = overlay
        self._inner = inner

    async def real(self, target: Target, accept: str = "") -> JSON | None:
        """Return an object of the server as it is now, None if there is none.

        Raises TransportError, and ReadFailed if the server refuses.
        """
        headers = {"accept": accept} if accept else _READ
        answer = await self._inner.request(
            Request("GET", target.object_path(), headers=headers)
        )
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if answer.status != HTTPStatus.OK:
            raise ReadFailed(answer)
        obj: JSON = msgspec.json.decode(answer.body)
        self._overlay.observe(target, obj)
        return obj

    async def answer(self, target: Target, request: Request) -> Response:
        """Return the answer to a GET, with the overlay on top."""
        if target.subresource == "scale":
            return await self._scale(target, request)
        answer = await self._inner.request(to_server(request))
        if target.name:
            return self._object(target, request, answer)
        if answer.status != HTTPStatus.OK:
            return answer
        listed = msgspec.json.decode(answer.body)
        self._merge(target, request, listed)
        return replace(answer, body=msgspec.json.encode(listed))

    def _object(self, target: Target, request: Request, answer: Response) -> Response:
        """Return the view of one object."""
        if answer.status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
            return answer
        accept = request.headers.get("accept", "")
        real = None
        if answer.status == HTTPStatus.OK:
            real = msgspec.json.decode(answer.body)
            if target.subresource and real.get("kind") not in self._kinds(target):
                return answer
            if not wants_metadata(accept):
                self._overlay.observe(target, real)
        view = self._overlay.view(target.key, real)
        if view is None:
            return not_found(target).answer if real else answer
        return object_answer(self.versioned(target, view, real), accept)

    def _kinds(self, target: Target) -> set[object]:
        """Return the kinds that an entry of the object may have."""
        entry = self._overlay.entries.get(target.key)
        return {entry.kind, "PartialObjectMetadata"} if entry else set()

    async def _scale(self, target: Target, request: Request) -> Response:
        """Return the scale of an object, with the replicas of the overlay."""
        answer = await self._inner.request(request)
        if answer.status != HTTPStatus.OK:
            return answer
        scale = msgspec.json.decode(answer.body)
        entry = self._overlay.entries.get(target.key)
        version = as_number(scale["metadata"].get("resourceVersion"))
        scale["metadata"]["resourceVersion"] = viewed(version)
        if entry is not None:
            view = entry.view(entry.real) or {}
            scale["spec"]["replicas"] = view.get("spec", {}).get("replicas", 0)
            scale["metadata"]["resourceVersion"] = viewed(version, entry.change)
        return replace(answer, body=msgspec.json.encode(scale))

    def versioned(self, target: Target, view: JSON, real: JSON | None) -> JSON:
        """Return a view of an object with its version."""
        entry = self._overlay.entries.get(target.key)
        stored = as_number((real or {}).get("metadata", {}).get("resourceVersion"))
        change = entry.change if entry is not None else 0
        return with_version(view, viewed(stored, change))

    def _merge(self, target: Target, request: Request, listed: dict[str, Any]) -> None:
        """Put the overlay on top of a list of the server."""
        metadata = listed.setdefault("metadata", {})
        number = self._overlay.changes.number
        stored = as_number(metadata.get("resourceVersion"))
        is_partial = wants_metadata(request.headers.get("accept", ""))
        items, known = [], set()
        for obj in listed.get("items") or ():
            found = of_item(target, obj)
            known.add(found.key)
            if not is_partial:
                whole = _whole(listed, found, obj)
                self._overlay.observe(found, whole, is_new=True)
            view = self._overlay.view(found.key, obj)
            if view is not None:
                items.append(self.versioned(found, view, obj))
        is_last, is_continued = (
            not metadata.get("continue"),
            "continue" in dict(request.query),
        )
        if is_last:
            items += [
                self._invented(each, is_partial=is_partial)
                for each in self._overlay.entries.invented(target)
                if each.key not in known and _is_selected(request.query, each)
            ]
        listed["items"] = items
        metadata["resourceVersion"] = viewed(stored, 0 if is_continued else number)

    def _invented(self, entry: Entry, *, is_partial: bool) -> JSON:
        view = entry.view(None) or {}
        shown = partial(view) if is_partial else view
        return with_version(shown, viewed(0, entry.change))


class ReadFailed(Exception):
    """A read that the server refused."""

    def __init__(self, answer: Response) -> None:
        super().__init__(f"HTTP {answer.status}")
        self.answer = answer


def with_version(obj: JSON, version: str) -> JSON:
    """Return an object with another version."""
    return {
        **obj,
        "metadata": {**obj.get("metadata", {}), "resourceVersion": version},
    }


def of_item(target: Target, obj: Mapping[str, Any]) -> Target:
    """Return the target of one object of a list or watch."""
    metadata = obj.get("metadata", {})
    return Target(
        target.collection,
        target.version,
        str(metadata.get("namespace", "")),
        str(metadata.get("name", "")),
    )


def _whole(listed: JSON, target: Target, obj: JSON) -> JSON:
    """Return an item of a list with its kind: lists leave it out."""
    if obj.get("kind"):
        return obj
    kind = str(listed.get("kind", "")).removesuffix("List")
    return {"kind": kind, "apiVersion": target.api_version, **obj}


def _is_selected(query: Query, entry: Entry) -> bool:
    view = entry.view(None)
    return view is not None and selects(query, view)
