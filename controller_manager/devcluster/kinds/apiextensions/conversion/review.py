"""ConversionReview: the request to a webhook, and its answer."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.bodies import go_json_error

_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
REVIEWS: Final = ("v1", "v1beta1")
"""The versions of reviews that this server sends."""


class ConversionError(Exception):
    """A webhook has not converted objects; the message says why."""


def review_version(accepted: Iterable[str]) -> str:
    """Return the first version that a webhook and this server know.

    Raises ConversionError if there is none.
    """
    found = next((each for each in accepted if each in REVIEWS), None)
    if found is None:
        msg = "no supported conversion review versions"
        raise ConversionError(msg)
    return found


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
