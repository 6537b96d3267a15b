"""Service accounts: their strategy, their tokens in secrets, and discovery of keys."""

import base64
import hmac
from typing import Final

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import (
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)

from controller_manager.api.json_objects import JSON
from controller_manager.control.key_id import key_id
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.objects import Objects, RESTStorage
from controller_manager.devcluster.apiserver.security import User, account_user
from controller_manager.devcluster.registry.kinds import kind_of
from controller_manager.devcluster.storage import Storage

from .configuration import CONFIG_MAPS, SECRETS
from .service_account_tokens import ALGORITHM, ISSUER, token_request

# ServiceAccount: the identity of programs in pods


KIND: Final = kind_of(
    "v1",
    "serviceaccounts",
    returns_deleted=True,
    printer="Name; Secrets: count .secrets or 0; Age",
)
REST_STORAGE: Final = RESTStorage(KIND.resource, connect={"token": token_request})


def uid_of_account(storage: Storage, namespace: str, name: str) -> str | None:
    """Return the uid of a service account, `None` if there is none."""
    stored = storage.collection(KIND.resource).get((namespace, name))
    return str(stored.obj["metadata"]["uid"]) if stored is not None else None


# The tokens of service accounts that secrets hold (pkg/serviceaccount/legacy.go).

_ISSUER: Final = "kubernetes/serviceaccount"
_CLAIM: Final = "kubernetes.io/serviceaccount"
_INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"
_LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
_TRACKING: Final = "kube-apiserver-legacy-service-account-token-tracking"


class AccountTokens:
    """Authenticates service accounts by the tokens of secrets, and records their use.

    Such a token is valid as long as its secret and its account exist, and the secret is
    not marked as invalid.
    """

    def __init__(self, objects: Objects, key: EllipticCurvePublicKey) -> None:
        self._objects = objects
        self._key = key

    def user_of(self, token: str) -> User | None:
        """Return the user of a token, `None` if it is not valid."""
        try:
            claims = jwt.decode(token, self._key, ["ES256"], issuer=_ISSUER)
        except jwt.InvalidTokenError:
            return None
        namespace, name, uid = (
            str(claims.get(f"{_CLAIM}/{each}", ""))
            for each in ("namespace", "service-account.name", "service-account.uid")
        )
        secret = self._living(
            SECRETS, namespace, str(claims.get(f"{_CLAIM}/secret.name", ""))
        )
        account = self._living(KIND, namespace, name)
        if secret is None or not _holds(secret, token):
            return None
        if account is None or account["metadata"]["uid"] != uid:
            return None
        self._record_use(secret)
        return account_user(namespace, name, uid)

    def _living(self, kind: Kind, namespace: str, name: str) -> JSON | None:
        if not self._objects.has(kind, namespace, name):
            return None
        obj = self._objects.find(kind, namespace, name).obj
        return None if "deletionTimestamp" in obj["metadata"] else obj

    def _record_use(self, secret: JSON) -> None:
        metadata = secret["metadata"]
        labels = metadata.get("labels") or {}
        today = f"{self._objects.clock.now():%Y-%m-%d}"
        if labels.get(_LAST_USED) != today:
            used = {**metadata, "labels": {**labels, _LAST_USED: today}}
            self._objects.update(
                SECRETS,
                metadata["namespace"],
                metadata["name"],
                {**secret, "metadata": used},
            )


def track_account_tokens(objects: Objects) -> None:
    """Record the date from which on the use of tokens is recorded.

    The legacy-serviceaccount-token-cleaner-controller reads it. Upstream:
    pkg/controlplane/controller/legacytokentracking.
    """
    if objects.has(CONFIG_MAPS, "kube-system", _TRACKING):
        return  # an earlier server has stored the date
    since = f"{objects.clock.now():%Y-%m-%d}"
    tracking = {"metadata": {"name": _TRACKING}, "data": {"since": since}}
    objects.create(CONFIG_MAPS, "kube-system", tracking)


def _holds(secret: JSON, token: str) -> bool:
    """Tell whether a secret holds a token, and is not marked as invalid."""
    encoded = base64.b64encode(token.encode()).decode()
    held = (secret.get("data") or {}).get("token", "")
    labels = secret["metadata"].get("labels") or {}
    return hmac.compare_digest(held, encoded) and _INVALID_SINCE not in labels


# Documents by which others verify the tokens of service accounts.

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
