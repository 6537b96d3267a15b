"""Reads an authority from its files, again when they change (ca_provider.go)."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from controller_manager.control.certificates.pem import blocks
from controller_manager.observability.logs import Logger
from controller_manager.options.controller_options import InvalidConfiguration

from .options import AuthorityFiles

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


Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_KEY_TYPES: Final = ("EC PRIVATE KEY", "RSA PRIVATE KEY", "PRIVATE KEY")


class UnusableAuthority(InvalidConfiguration):
    """The files of an authority cannot be used; the message names flag and file.

    The message never has anything of a key.
    """


class Authority:
    """A certificate and its key. Its repr never shows the key."""

    __slots__ = ("certificate", "key", "key_identifier")

    def __init__(self, certificate: x509.Certificate, key: Key) -> None:
        self.certificate = certificate
        self.key = key
        self.key_identifier = _key_identifier(certificate)

    def __repr__(self) -> str:
        """Return the subject of the certificate."""
        return f"Authority({self.certificate.subject.rfc4514_string()!r})"


class AuthoritySource:
    """Reads an authority; it stays in use while new files are not usable.

    The constructor raises UnusableAuthority.
    """

    def __init__(self, files: AuthorityFiles, logger: Logger) -> None:
        self._files = files
        self._logger = logger
        self._content = _read(files)
        self._authority = _parsed(files, self._content)

    def current(self) -> Authority:
        """Return the authority in the files, or the last one that was usable."""
        try:
            content = _read(self._files)
            if content != self._content:
                self._authority = _parsed(self._files, content)
                self._content = content
                self._logger.info("Loaded new authority", cert=self._files.certificate)
        except UnusableAuthority as error:
            # Most likely only one of the two files has been replaced so far.
            self._logger.warning("New authority not usable", err=str(error))
        return self._authority


def _read(files: AuthorityFiles) -> tuple[bytes, bytes]:
    certificate = _bytes_of(files.certificate, f"--{files.flag}-cert-file")
    return certificate, _bytes_of(files.key, f"--{files.flag}-key-file")


def _bytes_of(path: str, flag: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no path"
        msg = f"{flag}: {path}: {why}"
        raise UnusableAuthority(msg) from error


def _parsed(files: AuthorityFiles, content: tuple[bytes, bytes]) -> Authority:
    where = f"--{files.flag}-cert-file: {files.certificate}"
    certificate = _certificate(content[0], where)
    key = _key(content[1], f"--{files.flag}-key-file: {files.key}")
    if _public(key.public_key()) != _public(certificate.public_key()):
        msg = f"{where}: the key in {files.key} is not the certificate's"
        raise UnusableAuthority(msg)
    return Authority(certificate, key)


def _certificate(data: bytes, where: str) -> x509.Certificate:
    found = [each for each in blocks(data) if each.type == "CERTIFICATE"]
    if len(found) != 1:
        msg = f"{where}: expected 1 certificate, found {len(found)}"
        raise UnusableAuthority(msg)
    try:
        return x509.load_der_x509_certificate(found[0].content)
    except ValueError as error:
        msg = f"{where}: the certificate cannot be read: {error}"
        raise UnusableAuthority(msg) from error


def _key(data: bytes, where: str) -> Key:
    block = next((each for each in blocks(data) if each.type in _KEY_TYPES), None)
    if block is None:
        msg = f"{where}: there is no private key in it, or it is encrypted"
        raise UnusableAuthority(msg)
    try:
        key = load_der_private_key(block.content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The parser's message is left out: it might have parts of the key.
        key = None
    if not isinstance(key, Key):
        msg = f"{where}: is no key with which certificates can be signed"
        raise UnusableAuthority(msg)
    return key


def _public(key: object) -> bytes:
    encoded: bytes = key.public_bytes(  # type: ignore[attr-defined]
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


def _key_identifier(certificate: x509.Certificate) -> bytes:
    try:
        found = certificate.extensions.get_extension_for_class(
            x509.SubjectKeyIdentifier
        )
    except x509.ExtensionNotFound:
        return b""
    return found.value.digest
