"""The settings of the server's TLS: versions, suites, curve, certificate, authorities.

They are those of pyOpenSSL, see `serving.tls`.
"""

import re
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL, crypto

from controller_manager.options.config import ServingConfig
from controller_manager.options.tls import DEFAULT_CIPHERS

_PRIORITIZE_CHACHA: Final = 0x200000
"""SSL_OP_PRIORITIZE_CHACHA of OpenSSL, to which pyOpenSSL gives no name: ChaCha20 for a
client that prefers it, because it has no instructions for AES. So does Go."""

_CURVES: Final = {
    "prime256v1": ec.SECP256R1(),
    "secp384r1": ec.SECP384R1(),
    "secp521r1": ec.SECP521R1(),
}
_KEY: Final = re.compile(
    rb"-----BEGIN (?:[A-Z ]+ )?PRIVATE KEY-----.+?-----END [A-Z ]+-----", re.DOTALL
)


def settings(config: ServingConfig) -> SSL.Context:
    """Return settings without a certificate.

    No session is ever resumed, because a resumed one has no verified chain of client
    certificates. Client certificates are verified by Go's rules: a chain may end in
    any trusted certificate, not only in a self-signed one.
    """
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(
        SSL.TLS1_3_VERSION if config.min_tls_13 else SSL.TLS1_2_VERSION
    )
    context.set_cipher_list(":".join(config.ciphers or DEFAULT_CIPHERS).encode())
    if config.curve in _CURVES:
        context.set_tmp_ecdh(_CURVES[config.curve])
    context.set_options(
        SSL.OP_NO_TICKET
        | SSL.OP_NO_COMPRESSION
        | SSL.OP_CIPHER_SERVER_PREFERENCE
        | _PRIORITIZE_CHACHA
    )
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    store = context.get_cert_store()
    assert store is not None  # noqa: S101 - a new context has one
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    return context


def add_certificate(context: SSL.Context, certificate: bytes, key: bytes) -> None:
    """Add a certificate with its chain, and its key, all PEM, to settings.

    Raises ValueError, whose message says what cannot be used.
    """
    chain = x509.load_pem_x509_certificates(certificate)
    if b"ENCRYPTED" in key:
        msg = "the key is encrypted; give one without a passphrase"
        raise ValueError(msg)
    found = _KEY.search(key)
    if found is None:
        msg = "there is no private key in it"
        raise ValueError(msg)
    try:
        private = load_pem_private_key(found.group(), None)
        if private.public_key() != chain[0].public_key():
            msg = "the key does not match the certificate"
            raise ValueError(msg)
        context.use_certificate(chain[0])
        for each in chain[1:]:
            context.add_extra_chain_cert(each)
        context.use_privatekey(private)  # type: ignore[arg-type]
    except (SSL.Error, crypto.Error, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(str(error)) from error


def add_authorities(context: SSL.Context, pem: bytes) -> None:
    """Trust client certificates of these authorities, and name them to clients.

    Raises ValueError if one cannot be used.
    """
    store = context.get_cert_store()
    assert store is not None  # noqa: S101 - as above
    try:
        for each in x509.load_pem_x509_certificates(pem):
            store.add_cert(crypto.X509.from_cryptography(each))
            context.add_client_ca(each)
    except (SSL.Error, crypto.Error) as error:
        raise ValueError(str(error)) from error
