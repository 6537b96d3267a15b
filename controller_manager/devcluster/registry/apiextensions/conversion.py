"""Conversion of custom resources between their versions, also by webhooks.

Upstream: pkg/apiserver/conversion of apiextensions-apiserver.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Answers, Pending
from controller_manager.devcluster.scheme import names
from controller_manager.devcluster.scheme.decoding import go_json_error
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.devcluster.storage import Storage, Stored
from controller_manager.devcluster.webhook import Failure, endpoint_of, posted

from .custom_resources import CustomResourceStrategy

# ConversionReview: the request to a webhook, and its answer.

_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
REVIEWS: Final = ("v1", "v1beta1")
"""The versions of reviews that this server sends."""


class ConversionError(Exception):
    """A webhook has not converted objects; the message says why."""


def review_of(
    version: str, uid: str, objects: Sequence[JSON], api_version: str
) -> bytes:
    """Return the review that asks for objects in an apiVersion."""
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": objects}
    return msgspec.json.encode(
        {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": request}
    )


class _Result(Struct, frozen=True):
    status: str = ""
    message: str = ""


class _Response(Struct, frozen=True):
    uid: str = ""
    result: _Result = _Result()
    objects: list[Any] | None = field(name="convertedObjects", default=None)


class _Review(Struct, frozen=True):
    kind: str = ""
    api_version: str = field(name="apiVersion", default="")
    response: _Response | None = None


def converted_objects(body: bytes, version: str, uid: str) -> list[Any]:
    """Return the objects in an answer to a review; raises ConversionError.

    Upstream verifies kind and uid of answers in v1 alone.
    """
    try:
        review = msgspec.json.decode(body, type=_Review)
    except msgspec.ValidationError as error:
        msg = f"json: cannot unmarshal the response: {error}"
        raise ConversionError(msg) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        msg = f"couldn't get version/kind; json parse error: {go_json_error(body)}"
        raise ConversionError(msg) from None
    response = review.response
    if problem := _problem(review, version, uid):
        raise ConversionError(problem)
    assert response is not None  # noqa: S101 - it is no problem
    if response.result.status != "Success":
        status = f"response.result.status was '{response.result.status}', not 'Success'"
        raise ConversionError(response.result.message or status)
    return response.objects or []


def _problem(review: _Review, version: str, uid: str) -> str:
    group, _, found = review.api_version.rpartition("/")
    wanted, got = f"{_GROUP}/{version}, Kind={_KIND}", f"{group}/{found}"
    if version == "v1" and f"{got}, Kind={review.kind}" != wanted:
        return f"expected webhook response of {wanted}, got {got}, Kind={review.kind}"
    if review.response is None:
        return "no response provided"
    if version == "v1" and review.response.uid != uid:
        return f'expected response.uid="{uid}", got "{review.response.uid}"'
    return ""


# The metadata of converted objects: a webhook may change labels and annotations.

_KEPT: Final = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))
"""The fields that must stay the same, and their names in messages."""

_CHANGEABLE: Final = {
    "labels": (names.validate_labels, "metadata.labels"),
    "annotations": (names.validate_annotations, "metadata.annotation"),
}


def check_converted(given: JSON, converted: JSON) -> None:
    """Raise ConversionError unless both objects have the same name and uid."""
    before, after = given["metadata"], converted.get("metadata")
    after = after if isinstance(after, dict) else {}
    for key, what in _KEPT:
        if (wanted := before.get(key, "")) != (found := _text(after.get(key))):
            msg = f"must have the same {what}: {wanted} != {found}"
            raise ConversionError(msg)


def restored(given: JSON, converted: JSON) -> JSON:
    """Return a converted object with the metadata that it had before.

    Its labels and annotations are those of the webhook. Raises ConversionError.
    """
    if "metadata" not in converted:
        msg = "missing metadata in converted object"
        raise ConversionError(msg)
    found = converted["metadata"]
    if not isinstance(found, dict):
        msg = f"invalid metadata of type {_type_of(found)} in converted object"
        raise ConversionError(msg)
    metadata = dict(given["metadata"])
    for name in _CHANGEABLE:
        values = found.get(name)
        _check_texts(name, values, metadata.get(name) or {})
        if values is None:
            metadata.pop(name, None)
        else:
            metadata[name] = values
    # These two come first in each object, as lists expect.
    head = {"kind": converted.get("kind"), "apiVersion": converted.get("apiVersion")}
    return {**head, **converted, "metadata": metadata}


def _check_texts(name: str, values: Any, before: JSON) -> None:
    """Raise ConversionError for labels or annotations that no object may have."""
    if values is None:
        return
    if not isinstance(values, dict):
        what = f"metadata.{name} of type {_type_of(values)}"
        msg = f"invalid {what} in converted object"
        raise ConversionError(msg)
    for key, value in values.items():
        if not isinstance(value, str):
            what = f"metadata.{name}[{key}] must be a string, but is {_type_of(value)}"
            msg = f"{what} in converted object"
            raise ConversionError(msg)
    if values == before:
        return
    validate, field = _CHANGEABLE[name]
    problems = [str(each) for each in validate(values, field)]
    if problems:
        text = ", ".join(problems)
        raise ConversionError(text if len(problems) == 1 else f"[{text}]")


def _text(value: Any) -> str:
    """Return a text as Go reads it: another value counts as none."""
    return value if isinstance(value, str) else ""


def _type_of(value: Any) -> str:
    """Return the name of a value's type in Go."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case dict():
            return "map[string]interface {}"
    return "<nil>"


# Calls the conversion webhook of a definition (webhook_converter.go).

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
        version = next((each for each in self._reviews if each in REVIEWS), None)
        if version is None:
            raise _failed("no supported conversion review versions")
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


# Converts the objects of one version of a definition, from and to the stored
# version.

_UNSENT: Final = ("managedFields", "resourceVersion")
"""Metadata on which no answer depends: it is restored after each conversion."""


class Converted(Stored):
    """An object that was converted after it was read."""

    __slots__ = ()


class Versions(Struct, frozen=True):
    """All versions of a definition, served or not, by their apiVersion."""

    strategies: Mapping[str, CustomResourceStrategy]
    stored: str
    """The apiVersion in which objects are stored."""

    list_kind: str
    webhook: ConversionWebhook

    def strategy(self, api_version: str) -> CustomResourceStrategy:
        """Return the strategy of a version; raises Refusal for an unknown one."""
        if (found := self.strategies.get(api_version)) is not None:
            return found
        why = f"request to convert CR from an invalid group/version: {api_version}"
        raise Refusal(500, "", why)


class WebhookConverter(Struct, frozen=True):
    """Converts objects of the version `api_version`; `answers` has those so far."""

    versions: Versions
    api_version: str
    answers: Answers | None = None
    """Those of one request; without a request, nothing can be converted."""

    def within(self, answers: Answers) -> "WebhookConverter":
        """Return the same converter for one request, which keeps its answers."""
        return replace(self, answers=answers)

    def is_current(self, obj: JSON) -> bool:
        """Tell whether an object is stored in the version of today."""
        return bool(obj["apiVersion"] == self.versions.stored)

    def shown(self, stored: Stored) -> Stored:
        """Return a stored object in this version; raises Refusal and Pending."""
        return self._shown([stored], "")[0]

    def all_shown(self, found: Sequence[Stored]) -> list[Stored]:
        """Return the items of a list in this version, converted by one call.

        Raises Refusal and Pending.
        """
        return self._shown(found, self.versions.list_kind)

    def kept(self, obj: JSON) -> JSON:
        """Return an object of this version as it is stored, with the defaults.

        Raises Refusal and Pending.
        """
        target = self.versions.stored
        if obj["apiVersion"] == target:
            return obj
        (found,) = self._answered([obj], target, "")
        strategy = self.versions.strategy(target)
        kept = strategy.without_unknown(restored(obj, found))
        strategy.apply_defaults(kept)
        return kept

    def _shown(self, found: Sequence[Stored], list_kind: str) -> list[Stored]:
        read = [self._read(each) for each in found]
        wanted = self.api_version
        given = [each.obj for each in read if each.obj["apiVersion"] != wanted]
        answered = iter(self._answered(given, wanted, list_kind) if given else ())
        strategy = self.versions.strategies[wanted]
        return [
            each
            if each.obj["apiVersion"] == wanted
            else Converted(
                strategy.without_unknown(restored(each.obj, next(answered))),
                each.version,
            )
            for each in read
        ]

    def _read(self, stored: Stored) -> Stored:
        """Return an object as its own version shows it: pruned, with defaults."""
        if isinstance(stored, Converted):
            return stored
        strategy = self.versions.strategy(stored.obj["apiVersion"])
        shown = strategy.shown(stored)
        return stored if shown is stored.obj else Stored(shown, stored.version)

    def _answered(
        self, objects: Sequence[JSON], target: str, list_kind: str
    ) -> list[JSON]:
        """Return the webhook's answers for objects; raises Pending without them."""
        memory = self.answers
        assert memory is not None  # noqa: S101 - each request calls `within`
        sent = [_sent(each) for each in objects]
        keys = [(target, _key(each)) for each in sent]
        answers = [memory.recall(key) for key in keys]
        if all(each is not None for each in answers):
            return answers

        async def ask() -> None:
            found = await self.versions.webhook.converted(sent, target, list_kind)
            for key, answer in zip(keys, found, strict=True):
                memory.remember(key, answer)

        raise Pending(ask)


def _sent(obj: JSON) -> JSON:
    """Return an object as it is stored in etcd, without its resourceVersion."""
    metadata = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    return {**obj, "metadata": metadata}


def _key(obj: JSON) -> bytes:
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _UNSENT}
    return msgspec.json.encode({**obj, "metadata": metadata}, order="deterministic")
