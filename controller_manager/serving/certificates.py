"""The settings of TLS: serving certificates, and authorities of client certificates.

Files are read again at each handshake: a new certificate, or a new client authority,
is used from the next connection on.
"""

import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from controller_manager.client.identity.tls import (
    load_certificate,
    pem_only,
    tls_reason,
)
from controller_manager.client.identity.trust import set_verify_flags
from controller_manager.observability.logs import Logger
from controller_manager.options.config import CertificateFiles, ServingConfig
from controller_manager.options.tls import DEFAULT_CIPHERS, LOWEST_VERSION

PAIR_NAME: Final = "kube-controller-manager"
VALIDITY: Final = timedelta(days=365)
RENEW_BEFORE: Final = timedelta(days=60)
_DOMAIN: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
)
_WILDCARDS: Final = ("0.0.0.0", "::")  # noqa: S104 - what upstream calls them


_PRIORITIZE_CHACHA: Final = 0x200000
"""SSL_OP_PRIORITIZE_CHACHA of OpenSSL, to which Python gives no name: ChaCha20 for a
client that prefers it, because it has no instructions for AES. So does Go."""

_KEY: Final = re.compile(
    rb"-----BEGIN (?:[A-Z ]+ )?PRIVATE KEY-----.+?-----END [A-Z ]+-----", re.DOTALL
)


def _settings(config: ServingConfig) -> ssl.SSLContext:
    """Return settings without a certificate.

    No ticket is given out, because a resumed session has no verified chain of client
    certificates. Of TLS 1.2, OpenSSL also keeps sessions in the settings themselves, so
    each connection needs settings of its own.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = config.min_tls_version
    context.set_ciphers(":".join(config.ciphers or DEFAULT_CIPHERS))
    if config.curve:
        context.set_ecdh_curve(config.curve)
    context.options |= ssl.OP_NO_TICKET | _PRIORITIZE_CHACHA
    context.num_tickets = 0
    set_verify_flags(context)
    return context


def _add_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Add a certificate with its chain, and its key, all PEM, to settings.

    Raises ValueError, whose message says what cannot be used. The ssl module does not
    say it.
    """
    chain = x509.load_pem_x509_certificates(certificate)
    found = _KEY.search(key)
    try:
        if found is not None and b"ENCRYPTED" not in key:
            private = serialization.load_pem_private_key(found.group(), None)
            if private.public_key() != chain[0].public_key():
                msg = "the key does not match the certificate"
                raise ValueError(msg)
        load_certificate(context, certificate, key)
    except (OSError, TypeError, UnsupportedAlgorithm) as error:
        msg = tls_reason(error) if found else "there is no private key in it"
        raise ValueError(msg) from error


class ServingError(Exception):
    """The server cannot start; the message names flag, value and reason."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate (and its authorities) and its key, as PEM."""

    certificate: bytes
    key: bytes
    ends_at: datetime | None = None

    def ssl_context(self, config: ServingConfig | None = None) -> ssl.SSLContext:
        """Return the TLS settings of a server, with the ciphers of a config.

        Raises OSError or ValueError.
        """
        context = _server_context() if config is None else _settings(config)
        load_certificate(context, self.certificate, self.key)
        return context


def _server_context() -> ssl.SSLContext:
    """Return the TLS settings of a server without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = LOWEST_VERSION
    set_verify_flags(context)
    return context


def self_signed(
    common_name: str,
    hosts: Sequence[str],
    *,
    rsa_key: bool = False,
    validity: timedelta = VALIDITY,
    now: datetime | None = None,
) -> Pair:
    """Return a self-signed certificate for names and addresses, valid for a year.

    It is valid from an hour before `now`, which is this moment by default.
    """
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    if rsa_key:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    else:
        key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = now or datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in hosts]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        now + validity,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def check_authorities(data: bytes, where: str) -> bytes:
    """Return the PEM certificates in `data`, without other text.

    Raises ServingError, which begins with `where`, if there is no certificate.
    """
    try:
        pem = pem_only(data).encode()
        x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        msg = f"{where}: holds no PEM certificate: {error}"
        raise ServingError(msg) from error
    return pem


def _content(path: Path, flag: str) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        msg = f"{flag} {path}: {getattr(error, 'strerror', None) or error}"
        raise ServingError(msg) from error


@dataclass(slots=True)
class _Source:
    """One serving certificate, and the TLS settings made from it."""

    names: tuple[str, ...]
    """The names that a flag gives it; without them it has those in the certificate."""

    read: Callable[[], Pair]
    where: str
    """The beginning of messages about it."""

    place: str = "self-signed"
    """The file of the certificate, if there is one."""

    context: ssl.SSLContext | None = None
    made_of: tuple[bytes, ...] = ()
    wants_names: bool = False
    """True if the names in the certificate count."""

    own_names: tuple[str, ...] = ()
    """The names in the certificate, if they count."""

    def is_for(self, pattern: str) -> bool:
        """Tell whether it is for a name in lower case, which may begin with ``*``."""
        return any(each.lower() == pattern for each in self.names or self.own_names)


@dataclass(slots=True)
class Certificates:
    """Makes the TLS settings of a server, and keeps them up to date.

    `authorities` returns the authorities of client certificates as PEM, empty for
    none: then no client is asked for one. Raises ServingError if a file cannot be used
    at the start; if a file cannot be used later, the last usable settings stay in use.
    """

    config: ServingConfig
    authorities: Callable[[], bytes]
    logger: Logger
    _sources: list[_Source] = field(init=False)
    _generated: Pair | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Read all files."""
        self._sources = [
            _from_files(each, "--tls-sni-cert-key") for each in (self.config.sni)
        ]
        self._sources.append(self._default())
        for source in self._sources:
            self._current(source)

    def for_connection(self) -> ssl.SSLContext:
        """Return the settings of one connection, without a certificate.

        The certificate is chosen during the handshake. Of a client that sends one that
        does not verify, the handshake fails.
        """
        context = _settings(self.config)
        if self.authorities():
            context.verify_mode = ssl.CERT_OPTIONAL
        context.sni_callback = self._choose
        return context

    def current(self) -> Mapping[str, bytes]:
        """Return the certificates in use as PEM, by the place where they were read."""
        for each in self._sources:
            self._current(each)
        return {each.place: each.made_of[0] for each in self._sources}

    def _default(self) -> _Source:
        if self.config.certificate is not None:
            return _from_files(self.config.certificate, "--tls-cert-file")
        if self.config.cert_dir:
            directory = Path(self.config.cert_dir)
            files = CertificateFiles(
                str(directory / f"{PAIR_NAME}.crt"), str(directory / f"{PAIR_NAME}.key")
            )
            self._write_missing(directory, files)
            return _from_files(files, "--cert-dir")
        return _Source((), self._in_memory, "the self-signed certificate")

    def _hosts(self) -> list[str]:
        address = self.config.bind_address
        own = [] if address in _WILDCARDS else [address]
        hosts = ["localhost", "127.0.0.1", "::1", socket.gethostname(), *own]
        return list(dict.fromkeys(hosts))

    def _self_signed(self) -> Pair:
        # If all chosen cipher suites need an RSA key, the key must be an RSA key.
        chosen = self.config.ciphers
        rsa_only = bool(chosen) and not any("ECDSA" in each for each in chosen)
        return self_signed(PAIR_NAME, self._hosts(), rsa_key=rsa_only)

    def _in_memory(self) -> Pair:
        pair = self._generated
        ends_at = pair.ends_at if pair else None
        if pair is None or (
            ends_at is not None and datetime.now(UTC) > ends_at - RENEW_BEFORE
        ):
            pair = self._generated = self._self_signed()
            self.logger.info("Generated self-signed cert in-memory")
        return pair

    def _write_missing(self, directory: Path, files: CertificateFiles) -> None:
        certificate, key = Path(files.certificate), Path(files.key)
        try:
            there = [each for each in (certificate, key) if each.exists()]
        except OSError as error:
            msg = f"--cert-dir {directory}: {error.strerror}"
            raise ServingError(msg) from error
        if len(there) == 1:
            msg = (
                f"--cert-dir {directory}: has {there[0].name} only; remove it, or put "
                "the other of the pair there"
            )
            raise ServingError(msg)
        if there:
            return
        pair = self._self_signed()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            certificate.write_bytes(pair.certificate)
            descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(pair.key)
        except OSError as error:
            msg = f"--cert-dir {directory}: cannot write to it: {error.strerror}"
            raise ServingError(msg) from error
        self.logger.info(
            "Generated self-signed cert", cert=str(certificate), key=str(key)
        )

    def _choose(
        self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext
    ) -> None:
        """Pick the certificate for one handshake; without SNI, the default one."""
        source = self._named((name or "").lower()) or self._sources[-1]
        connection.context = self._current(source)

    def _named(self, name: str) -> _Source | None:
        """Return the certificate for a name of SNI, `None` if none is for it.

        The name itself wins over a wildcard, which stands for its first label. Names
        that a flag gives win over those in a certificate, and then the first flag wins.
        Upstream: BuildNamedCertificates of apiserver's dynamiccertificates.
        """
        named = [each for each in self._sources[:-1] if each.names]
        others = [each for each in self._sources if each.wants_names]
        if name:
            for each in others:
                self._current(each)  # A new certificate may have other names.
        _, dot, parent = name.partition(".")
        for pattern in (name, f"*{dot}{parent}") if name else ():
            for source in (*named, *others):
                if source.is_for(pattern):
                    return source
        return None

    def _current(self, source: _Source) -> ssl.SSLContext:
        try:
            pair, authorities = source.read(), self.authorities()
            made_of = (pair.certificate, pair.key, authorities)
            if source.context is None or made_of != source.made_of:
                if source.wants_names:
                    source.own_names = _names_in(pair.certificate, source.where)
                source.context = self._make_context(pair, authorities, source.where)
                source.made_of = made_of
        except ServingError as error:
            if source.context is None:
                raise
            # Most likely only one of the two files has been replaced so far.
            self.logger.warning("New certificate not usable", err=str(error))
        return source.context

    def _make_context(
        self, pair: Pair, authorities: bytes, where: str
    ) -> ssl.SSLContext:
        context = _settings(self.config)
        try:
            _add_certificate(context, pair.certificate, pair.key)
        except ValueError as error:
            msg = f"{where}: cannot be used: {error}"
            raise ServingError(msg) from error
        if authorities:
            try:
                context.load_verify_locations(cadata=authorities.decode())
            except OSError as error:
                msg = f"client authorities cannot be used: {tls_reason(error)}"
                raise ServingError(msg) from error
        return context


def _from_files(files: CertificateFiles, flag: str) -> _Source:
    certificate, key = Path(files.certificate), Path(files.key)
    key_flag = "--tls-private-key-file" if flag == "--tls-cert-file" else flag

    def read() -> Pair:
        return Pair(_content(certificate, flag), _content(key, key_flag))

    where = f"{flag} {certificate} with {key_flag} {key}"
    wants_names = flag == "--tls-sni-cert-key" and not files.names
    return _Source(files.names, read, where, str(certificate), wants_names=wants_names)


def _names_in(pem: bytes, where: str) -> tuple[str, ...]:
    """Return the names that a certificate is for: its common name, its DNS names.

    A common name counts if it is a domain, perhaps with a wildcard.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        msg = f"{where}: holds no PEM certificate: {error}"
        raise ServingError(msg) from error
    common = [
        str(each.value)
        for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    ]
    try:
        others = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        others = []
    except ValueError as error:
        msg = f"{where}: its names cannot be read: {error}"
        raise ServingError(msg) from error
    return (*filter(_is_domain, common), *others)


def _is_domain(name: str) -> bool:
    """Tell whether a name is a domain, perhaps with a wildcard, and no address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "*" or _DOMAIN.fullmatch(name.removeprefix("*.")) is not None
    return False
