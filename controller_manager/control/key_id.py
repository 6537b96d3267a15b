"""The id of a key that signs the tokens of service accounts."""

import base64
import hashlib

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def key_id(key: RSAPrivateKey | EllipticCurvePrivateKey) -> str:
    """Return a hash of the public key, by which an API server finds its copy.

    Upstream: keyIDFromPublicKey of pkg/serviceaccount/jwt.go.
    """
    public = key.public_key().public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    digest = hashlib.sha256(public).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
