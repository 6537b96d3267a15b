"""The reasons of failed calls, as messages of client-go."""

from typing import Final

from msgspec import Struct

_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "the server does not allow access to the requested resource",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client "
    "supports",
    409: "the server reported a conflict",
    413: "the server responded with the status code 413 but did not return more "
    "information",
    415: "the server was unable to understand the content type of the request",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again "
    "later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may "
    "still be processing the request",
}
_MOST_SHOWN: Final = 2048


class Failure(Struct, frozen=True):
    """The call of a webhook failed, or its answer is invalid; `why` has the reason."""

    why: str


def status_text(code: int, body: bytes) -> str:
    """Return the message of an answer without a Status (NewGenericServerResponse)."""
    if code == 500:
        text = body[:_MOST_SHOWN].decode("utf-8", "replace").strip() or "unknown"
        shown = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return (
            f'an error on the server ("{shown}") has prevented the request from '
            "succeeding"
        )
    default = (
        f"the server responded with the status code {code} but did not return more "
        "information"
    )
    return _TEXTS.get(code, default)
