"""Requests that are encoded by hand, for what no tool would write."""

import base64
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.controllers.certificates.authorities import new_key

INTEGER: Final = 2
BIT_STRING: Final = 3
OCTET_STRING: Final = 4
UTF8: Final = 12
PRINTABLE: Final = 19
TELETEX: Final = 20
IA5: Final = 22
BMP: Final = 30

COMMON_NAME: Final = "2.5.4.3"
ORGANIZATION: Final = "2.5.4.10"

EMAIL: Final = 0x81
DNS: Final = 0x82
URI: Final = 0x86
ADDRESS: Final = 0x87

_OBJECT: Final = 6
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_ATTRIBUTES: Final = 0xA0
_ECDSA_SHA256: Final = "1.2.840.10045.4.3.2"
_EXTENSION_REQUEST: Final = "1.2.840.113549.1.9.14"
_ALTERNATIVE_NAMES: Final = "2.5.29.17"

Attribute = tuple[str, int, bytes]
"""An attribute of a subject: its type, the tag of its value, and the value."""

Name = tuple[int, bytes]
"""An alternative name: its tag and its content."""


def element(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    if len(content) < 128:
        return bytes((tag, len(content))) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8)
    return bytes((tag, 128 + len(length))) + length + content


def identifier(text: str) -> bytes:
    first, second, *others = map(int, text.split("."))
    return element(_OBJECT, *map(_base_128, (40 * first + second, *others)))


def _base_128(number: int) -> bytes:
    digits = [number & 127]
    while number := number >> 7:
        digits.append(128 | number & 127)
    return bytes(reversed(digits))


def alternative_names(names: Iterable[Name]) -> bytes:
    """Return the extension subjectAltName with these names, in this order."""
    content = element(_SEQUENCE, *(element(*each) for each in names))
    return element(
        _SEQUENCE, identifier(_ALTERNATIVE_NAMES), element(OCTET_STRING, content)
    )


def request_with(
    subject: Sequence[Sequence[Attribute]], extensions: Sequence[bytes] = ()
) -> str:
    """Return a signed request as it stands in ``spec.request``.

    `subject` has the sets of attributes of which the name consists.
    """
    name = element(_SEQUENCE, *(_set_of(each) for each in subject))
    attributes = [_requested(extensions)] if extensions else []
    info = element(
        _SEQUENCE,
        element(INTEGER, b"\0"),
        name,
        _public_key(),
        element(_ATTRIBUTES, *attributes),
    )
    signature = new_key().sign(info, ec.ECDSA(hashes.SHA256()))
    algorithm = element(_SEQUENCE, identifier(_ECDSA_SHA256))
    whole = element(_SEQUENCE, info, algorithm, element(BIT_STRING, b"\0", signature))
    return in_pem(whole)


def in_pem(content: bytes) -> str:
    label = "CERTIFICATE REQUEST"
    text = base64.b64encode(content).decode()
    pem = f"-----BEGIN {label}-----\n{text}\n-----END {label}-----\n"
    return base64.b64encode(pem.encode()).decode()


def _set_of(attributes: Sequence[Attribute]) -> bytes:
    encoded = (
        element(_SEQUENCE, identifier(kind), element(tag, value))
        for kind, tag, value in attributes
    )
    return element(_SET, *sorted(encoded))


def _requested(extensions: Sequence[bytes]) -> bytes:
    return element(
        _SEQUENCE,
        identifier(_EXTENSION_REQUEST),
        element(_SET, element(_SEQUENCE, *extensions)),
    )


@cache
def _public_key() -> bytes:
    return (
        new_key()
        .public_key()
        .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    )
