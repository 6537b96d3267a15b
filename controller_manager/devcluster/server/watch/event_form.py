"""The form of objects in the events of a watch."""

from typing import Protocol

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.http.accepting import Form
from controller_manager.devcluster.server.http.rendering import partial
from controller_manager.devcluster.server.storage.storage import Stored


class Encode(Protocol):
    """Encodes an object in a form; `headers` says whether a table shows its columns."""

    def __call__(self, stored: Stored, form: Form, *, headers: bool) -> bytes:
        """Return the encoded object."""
        ...


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
