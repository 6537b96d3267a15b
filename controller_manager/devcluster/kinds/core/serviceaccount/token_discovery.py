"""Documents by which others verify the tokens of service accounts.

Upstream: pkg/serviceaccount/openidmetadata.go.
"""

import base64
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from controller_manager.control.key_id import key_id

from .bound_tokens import ALGORITHM, ISSUER

CONFIGURATION_PATH: Final = "/.well-known/openid-configuration"
KEYS_PATH: Final = "/openid/v1/jwks"
KEYS_TYPE: Final = "application/jwk-set+json"

_COORDINATE: Final = 32
"""The bytes of a coordinate on the curve P-256."""


def openid_configuration(address: str) -> bytes:
    """Return the document that names the issuer, and where its keys are.

    `address` is the host and port of the API server.
    """
    configuration = {
        "issuer": ISSUER,
        "jwks_uri": f"https://{address}{KEYS_PATH}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
    }
    return msgspec.json.encode(configuration)


def key_set(key: EllipticCurvePrivateKey) -> bytes:
    """Return the set of keys that verify tokens: the public part of `key`."""
    numbers = key.public_key().public_numbers()
    public = {
        "use": "sig",
        "kty": "EC",
        "kid": key_id(key),
        "crv": "P-256",
        "alg": ALGORITHM,
        "x": _encoded(numbers.x),
        "y": _encoded(numbers.y),
    }
    return msgspec.json.encode({"keys": [public]})


def _encoded(number: int) -> str:
    content = number.to_bytes(_COORDINATE, "big")
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
