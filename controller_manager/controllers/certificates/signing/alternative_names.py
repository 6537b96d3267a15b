"""The extension subjectAltName of a certificate (marshalSANs of Go's crypto/x509)."""

from collections.abc import Iterator
from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from controller_manager.control.certificates.request import AlternativeNames

_SEQUENCE: Final = 0x30
_EMAIL: Final = 0x81
_DNS: Final = 0x82
_URI: Final = 0x86
_ADDRESS: Final = 0x87
_SHORT: Final = 128
"""Contents of fewer bytes have their length in one byte."""


def alternative_names(names: AlternativeNames) -> x509.UnrecognizedExtension | None:
    """Return the extension with names in the order of Go, `None` without names.

    It is encoded here: `x509.RFC822Name` refuses some texts that Go writes. All texts
    are ASCII: a request with others cannot be read.
    """
    encoded = b"".join(_element(tag, value) for tag, value in _parts(names))
    if not encoded:
        return None
    content = _element(_SEQUENCE, encoded)
    return x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, content)


def _parts(names: AlternativeNames) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each name."""
    for tag, texts in ((_DNS, names.dns), (_EMAIL, names.emails)):
        for text in texts:
            yield tag, text.encode("ascii")
    for address in names.addresses:
        yield _ADDRESS, address.packed
    for uri in names.uris:
        yield _URI, uri.encode("ascii")


def _element(tag: int, content: bytes) -> bytes:
    """Return an element of DER."""
    size = len(content)
    if size < _SHORT:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, _SHORT | len(length))) + length + content
