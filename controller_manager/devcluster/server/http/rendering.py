"""Objects and lists in the form that a client accepts (handlers/response.go)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Response
from controller_manager.clock import Clock
from controller_manager.devcluster.scheme.statuses import (
    Refusal,
    bad_request,
    not_acceptable,
    shown,
)
from controller_manager.devcluster.server.rest.kind import Kind, in_version
from controller_manager.devcluster.server.rest.tables import NAME
from controller_manager.devcluster.server.storage.storage import Stored

from .accepting import Form
from .request_info import Target
from .responses import JSON_HEADERS, encode_list, json_response

_INCLUDED: Final = ("", "Metadata", "Object", "None")
_SUCCESS: Final = (200, 201)


class Renderer:
    """Encodes stored objects; the clock is for their ages."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def encoded(self, target: Target, stored: Stored, form: Form) -> bytes:
        """Return one object in a form."""
        match form:
            case Form.METADATA | Form.METADATA_LIST:
                return msgspec.json.encode(partial(stored.obj))
            case Form.TABLE:
                return msgspec.json.encode(self._table_of(target, stored))
        return stored.encoded

    def event(
        self, target: Target, stored: Stored, form: Form, *, headers: bool
    ) -> bytes:
        """Return the object of a watch event; a table may lack its columns."""
        shown = in_version(target.kind, stored)
        if form is not Form.TABLE:
            return self.encoded(target, shown, form)
        body = self._table_of(target, shown)
        if not headers:
            body["columnDefinitions"] = None
        return msgspec.json.encode(body)

    def page(
        self, target: Target, page: list[Stored], metadata: JSON, form: Form
    ) -> Response:
        """Return a list in a form."""
        match form:
            case Form.TABLE:
                return json_response(200, self._table(target, page, metadata))
            case Form.METADATA_LIST:
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

    def rewritten(self, target: Target, answer: Response, form: Form) -> Response:
        """Return the answer to a write in a form; other values are copied unchanged."""
        if form is Form.FULL or answer.status not in _SUCCESS:
            return answer
        obj = msgspec.json.decode(answer.body)
        if obj.get("kind") != target.kind.kind:
            return answer
        body = self.encoded(target, Stored(obj, 0), form)
        return Response(answer.status, answer.headers, body)

    def _table_of(self, target: Target, stored: Stored) -> JSON:
        version = str(stored.obj["metadata"].get("resourceVersion", ""))
        return self._table(target, [stored], {"resourceVersion": version})

    def _table(self, target: Target, items: list[Stored], metadata: JSON) -> JSON:
        include = target.query.get("includeObject", "")
        if include not in _INCLUDED:
            raise bad_request(
                "Unable to convert to Table as requested: includeObject: Invalid "
                f"value: {shown(include)}: must be 'Metadata', 'Object', 'None', or "
                "empty"
            )
        return table(target.kind, items, self._clock.now(), include, metadata)


def wrong_form(target: Target, form: Form, *, is_list: bool) -> Refusal:
    """Return the refusal of an object as a list, or of a list as an object."""
    kind = target.kind
    package = kind.group.partition(".")[0] or "core"
    type_name = f"{package}.{kind.list_kind if is_list else kind.kind}"
    if kind.is_custom:
        type_name = f"unstructured.Unstructured{'List' if is_list else ''}"
    what = "a list" if is_list else "not a list"
    return not_acceptable(
        f"you requested {form.value}, but the requested object is {what} (*{type_name})"
    )


def table(
    kind: Kind,
    items: Iterable[Stored],
    now: datetime,
    include: str,
    metadata: JSON,
) -> JSON:
    """Return objects as a Table; `include` selects the form of the object in each row.

    The values are ``None``, ``Object``, and for all others the metadata.
    """
    rows = []
    for stored in kind.strategy.in_table_order(items):
        row: JSON = {"cells": kind.strategy.cells(stored.obj, now)}
        if include == "Object":
            row["object"] = stored.obj
        elif include != "None":
            row["object"] = partial(stored.obj)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": _definitions(kind),
        "rows": rows,
    }


def partial(obj: JSON) -> JSON:
    """Return the PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


def _definitions(kind: Kind) -> list[JSON]:
    return [
        {
            "name": column.title,
            "type": column.type,
            "format": "name" if column == NAME else column.format,
            "description": column.description or f"{column.title} of the {kind.kind}.",
            "priority": column.priority,
        }
        for column in kind.strategy.table_columns()
    ]
