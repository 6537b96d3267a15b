"""Blocks of PEM, as Go's encoding/pem finds them."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

_BLOCK: Final = re.compile(
    rb"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n(.*?)^-----END \1-----[ \t\r]*$",
    re.DOTALL | re.MULTILINE,
)
_HEADER: Final = re.compile(rb"^[^\n:]+:[^\n]*\n", re.MULTILINE)
_LINE: Final = 64


class Block(Struct, frozen=True):
    """A block: its type, and its content (DER)."""

    type: str
    content: bytes
    has_headers: bool = False


def blocks(data: bytes) -> Iterator[Block]:
    """Yield the blocks in `data`; skip other text and broken blocks."""
    for found in _BLOCK.finditer(data):
        kind, body = found.groups()
        encoded, headers = _HEADER.subn(b"", body)
        try:
            content = base64.b64decode(b"".join(encoded.split()), validate=True)
        except binascii.Error:
            continue
        yield Block(kind.decode(errors="replace"), content, headers > 0)


def encode(kind: str, content: bytes) -> bytes:
    """Return DER as a block of a type, in lines of 64 characters."""
    text = base64.b64encode(content).decode()
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    body = "\n".join(lines)
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n".encode()
