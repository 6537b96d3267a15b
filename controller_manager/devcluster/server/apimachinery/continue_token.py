"""Continue tokens: the position at which the next page of a list begins."""

import base64
import binascii
from typing import Final

import msgspec

from .statuses import Refusal, bad_request

LATEST: Final = -1
"""The version in a token of a list that goes on with the present state."""


def encode_continue(version: int, start: str) -> str:
    """Return the token of a page that begins after `start`, at a version."""
    body = {"v": "meta.k8s.io/v1", "rv": version, "start": start}
    return base64.urlsafe_b64encode(msgspec.json.encode(body)).decode().rstrip("=")


def decode_continue(token: str) -> tuple[int, str]:
    """Return version and start of a token; raises Refusal 400."""
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise _bad_token("illegal base64 data") from None
    try:
        body = msgspec.json.decode(raw)
        return int(body["rv"]), str(body["start"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        first = raw[:1]
        printable = first.isascii() and first.decode().isprintable()
        character = first.decode() if printable else f"\\x{first.hex()}"
        why = f"invalid character '{character}' looking for beginning of value"
        raise _bad_token(why) from None


def _bad_token(why: str) -> Refusal:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
