"""Calls the conversion webhook of a definition (webhook_converter.go)."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.webhook.client import endpoint_of, posted
from controller_manager.devcluster.webhook.failures import Failure

from .metadata import check_converted, restored
from .review import ConversionError, converted_objects, review_of, review_version

_TIMEOUT: Final = 30
"""The seconds for which the server waits for an answer."""

_SLOW: Final = "context deadline exceeded"
_WAITED: Final = " (Client.Timeout exceeded while awaiting headers)"


class ConversionWebhook:
    """The webhook in the ``spec.conversion`` of a definition."""

    def __init__(
        self, conversion: JSON, storage: Storage, new_uid: Callable[[], str]
    ) -> None:
        """Take the conversion; `storage` has services, `new_uid` names reviews."""
        webhook = conversion["webhook"]
        self._config = webhook["clientConfig"]
        self._reviews: Sequence[str] = webhook["conversionReviewVersions"]
        self._storage = storage
        self._new_uid = new_uid

    async def converted(
        self, objects: Sequence[JSON], api_version: str, list_kind: str = ""
    ) -> list[JSON]:
        """Return objects in another version, with a call for all of them.

        With `list_kind`, they are items of a list of that kind. Raises Refusal 500 with
        upstream's message if the webhook fails or converts wrongly.
        """
        first = objects[0]
        version, kind = first["apiVersion"], first["kind"]
        if list_kind:
            version, kind = api_version, list_kind
        what = f"conversion webhook for {version}, Kind={kind}"
        answered = await self._called(objects, api_version, what)
        if len(answered) != len(objects):
            counts = f"{len(answered)} objects, expected {len(objects)}"
            raise _failed(f"{what} returned {counts}")
        return [
            _checked(what, place, api_version, *pair, is_item=bool(list_kind))
            for place, pair in enumerate(zip(objects, answered, strict=True))
        ]

    async def _called(
        self, objects: Sequence[JSON], api_version: str, what: str
    ) -> list[Any]:
        """Return the objects in the answer of the webhook; raises Refusal."""
        endpoint = endpoint_of(self._config, self._storage, _TIMEOUT)
        if isinstance(endpoint, Failure):
            message = "Internal error occurred: error resolving resource"
            raise Refusal(500, "InternalError", message)
        uid = self._new_uid()
        try:
            version = review_version(self._reviews)
        except ConversionError as error:
            raise _failed(str(error)) from None
        body = review_of(version, uid, objects, api_version)
        answer = await posted(endpoint, body, _TIMEOUT)
        if isinstance(answer, Failure):
            why = answer.why + (_WAITED if answer.why.endswith(_SLOW) else "")
            raise _failed(f"{what} failed: {why}")
        try:
            return converted_objects(answer, version, uid)
        except ConversionError as error:
            raise _failed(f"{what} failed: {error}") from None


def _checked(
    what: str, place: int, api_version: str, given: JSON, found: Any, *, is_item: bool
) -> JSON:
    """Return a converted object with its metadata restored; raises Refusal."""
    noun = "converted object" if is_item else "object"
    where = f"{what} returned invalid {noun} at index {place}"
    if not isinstance(found, dict) or not found.get("kind"):
        shown = msgspec.json.encode(found).decode()
        problem = f"Object 'Kind' is missing in '{shown}'"
        raise _failed(f"{where}: {problem}" if is_item else problem)
    got = (str(found.get("apiVersion", "")), str(found["kind"]))
    for name, wanted, other in (
        ("groupVersion", api_version, got[0]),
        ("kind", given["kind"], got[1]),
    ):
        if wanted != other:
            expected = f"(expected {wanted}, received {other})"
            raise _failed(f"{where}: invalid {name} {expected}")
    try:
        check_converted(given, found)
    except ConversionError as error:
        raise _failed(
            f"{where if is_item else f'{what} returned invalid object'}: {error}"
        ) from None
    try:
        return restored(given, found)
    except ConversionError as error:
        metadata = f"{what} returned invalid metadata"
        item = f"{metadata} in object at index {place}"
        raise _failed(f"{item if is_item else metadata}: {error}") from None


def _failed(message: str) -> Refusal:
    """Return the refusal for a failed conversion, which upstream gives no reason."""
    return Refusal(500, "", message)
