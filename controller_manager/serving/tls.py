"""The settings of the server's TLS, and the chain of a client's certificate."""

import re
import ssl
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from controller_manager.client.identity.tls import load_certificate, tls_reason
from controller_manager.client.identity.trust import set_verify_flags
from controller_manager.options.config import ServingConfig
from controller_manager.options.tls import DEFAULT_CIPHERS

_PRIORITIZE_CHACHA: Final = 0x200000
"""SSL_OP_PRIORITIZE_CHACHA of OpenSSL, to which Python gives no name: ChaCha20 for a
client that prefers it, because it has no instructions for AES. So does Go."""

_KEY: Final = re.compile(
    rb"-----BEGIN (?:[A-Z ]+ )?PRIVATE KEY-----.+?-----END [A-Z ]+-----", re.DOTALL
)


def settings(config: ServingConfig) -> ssl.SSLContext:
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


def add_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Add a certificate with its chain, and its key, all PEM, to settings.

    Raises ValueError, whose message says what cannot be used. The ssl module does not
    say it.
    """
    chain = x509.load_pem_x509_certificates(certificate)
    found = _KEY.search(key)
    try:
        if found is not None and b"ENCRYPTED" not in key:
            private = load_pem_private_key(found.group(), None)
            if private.public_key() != chain[0].public_key():
                msg = "the key does not match the certificate"
                raise ValueError(msg)
        load_certificate(context, certificate, key)
    except (OSError, TypeError, UnsupportedAlgorithm) as error:
        msg = tls_reason(error) if found else "there is no private key in it"
        raise ValueError(msg) from error


def add_authorities(context: ssl.SSLContext, pem: bytes) -> None:
    """Trust client certificates of these authorities.

    Raises ValueError if one cannot be used.
    """
    try:
        context.load_verify_locations(cadata=pem.decode())
    except OSError as error:
        raise ValueError(tls_reason(error)) from error


def verified_chain(connection: ssl.SSLObject | None) -> list[bytes]:
    """Return the chain of the client's certificate as DER, up to its authority.

    It is empty for a client without a certificate, and for one that has disconnected.
    """
    if connection is None:
        return []
    # Python before 3.13 has the function only in the object that it wraps.
    inner: Any = connection
    if not hasattr(inner, "get_verified_chain"):
        inner = inner._sslobj  # noqa: SLF001
    found = inner.get_verified_chain() or []
    return [each if isinstance(each, bytes) else _der(each) for each in found]


def _der(certificate: Any) -> bytes:  # noqa: ANN401 - it has no public type
    return ssl.PEM_cert_to_DER_cert(certificate.public_bytes())
