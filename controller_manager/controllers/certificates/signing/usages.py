"""The extensions for the usages of a certificate (authority/policies.go)."""

from collections.abc import Iterable, Mapping
from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

_BITS: Final[Mapping[str, int]] = {
    "signing": 0,
    "digital signature": 0,
    "content commitment": 1,
    "key encipherment": 2,
    "data encipherment": 3,
    "key agreement": 4,
    "cert sign": 5,
    "crl sign": 6,
    "encipher only": 7,
    "decipher only": 8,
}
"""The bit of the extension keyUsage for each usage."""

_EMAIL: Final = ExtendedKeyUsageOID.EMAIL_PROTECTION
_PURPOSES: Final[Mapping[str, x509.ObjectIdentifier]] = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": _EMAIL,
    "s/mime": _EMAIL,
    "ipsec end system": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": x509.ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": x509.ObjectIdentifier("2.16.840.1.113730.4.1"),
}
"""The purposes of the extension extKeyUsage, in the order in which Go writes them."""


class UnknownUsages(ValueError):
    """A request has usages that no signer knows."""


def check_usages(usages: Iterable[str]) -> None:
    """Raise UnknownUsages, with their names, if some usages are unknown."""
    unknown = [each for each in usages if each not in _BITS and each not in _PURPOSES]
    if unknown:
        listed = " ".join(f'"{each}"' for each in unknown)
        msg = f"unrecognized usage values: [{listed}]"
        raise UnknownUsages(msg)


def key_usage(usages: Iterable[str]) -> x509.UnrecognizedExtension | None:
    """Return the extension keyUsage, `None` if no usage has a bit in it.

    The function encodes it, since `x509.KeyUsage` refuses combinations that Go writes.
    """
    bits = {_BITS[each] for each in usages if each in _BITS}
    if not bits:
        return None
    # A DER bit string: the tag 3, the length, the unused bits of the last byte, and
    # the bytes, with bit 0 as the highest bit of the first byte.
    size = max(bits) // 8 + 1
    unused = size * 8 - 1 - max(bits)
    value = sum(1 << (size * 8 - 1 - bit) for bit in bits)
    encoded = bytes((3, size + 1, unused)) + value.to_bytes(size)
    return x509.UnrecognizedExtension(ExtensionOID.KEY_USAGE, encoded)


def extended_key_usage(usages: Iterable[str]) -> x509.ExtendedKeyUsage | None:
    """Return the extension extKeyUsage, `None` if no usage has a purpose in it."""
    wanted = frozenset(usages)
    found = (purpose for usage, purpose in _PURPOSES.items() if usage in wanted)
    purposes = tuple(dict.fromkeys(found))
    return x509.ExtendedKeyUsage(purposes) if purposes else None
