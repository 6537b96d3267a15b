"""Config maps, secrets and service accounts, with the tokens that secrets hold."""

import base64
import hmac
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import (
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)

from controller_manager.api.core import secrets
from controller_manager.api.json_objects import JSON
from controller_manager.control.key_id import key_id
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.objects import Objects, RESTStorage
from controller_manager.devcluster.apiserver.security import (
    AUTHENTICATED,
    User,
    account_user,
)
from controller_manager.devcluster.registry.kinds import kind_of
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.decoding import go_json_error
from controller_manager.devcluster.scheme.names import validate_config_key
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.text import table

from .service_account_tokens import ALGORITHM, ISSUER, token_request

# The rules for the data of config maps and secrets (core/validation)

_LARGEST: Final = 1024 * 1024
"""The most bytes in the data of an object (MaxSecretSize)."""


_IMMUTABLE: Final = table("""
    when outer filled immutable:
      immutable, data: kept "field is immutable when `immutable` is set"
    """)


def _size_of_base64(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")


def _entries(obj: JSON) -> int:
    return len(obj.get("data", {})) + len(obj.get("binaryData", {}))


# ConfigMap: configuration data of programs


def _data(obj: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    """Check the keys; none may be in the binary data, too."""
    for key in obj.get("data") or ():
        yield from validate_config_key(key, f"{path}data[{key}]")
        if key in (obj.get("binaryData") or {}):
            detail = "duplicate of key present in binaryData"
            yield statuses.invalid(f"{path}data[{key}]", statuses.shown(key), detail)


def _size(obj: JSON, _: str, __: JSON) -> Iterator[statuses.Cause]:
    size = sum(len(each.encode()) for each in (obj.get("data") or {}).values())
    size += sum(map(_size_of_base64, (obj.get("binaryData") or {}).values()))
    if size > _LARGEST:
        yield statuses.too_long("[]", _LARGEST)


CONFIG_MAPS: Final = kind_of(
    "v1/configmaps",
    rules="""
        hook data
        binaryData{}: config-key keys
        hook size
        """,
    update_rules="""
        include IMMUTABLE
        binaryData: kept if outer filled immutable
          "field is immutable when `immutable` is set"
        """,
    printer="Name; Data: entries; Age",
)

# Secret: confidential data

_ACCOUNT: Final = "kubernetes.io/service-account.name"
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys that secrets of some types must have."""

_JSON_TYPES: Final = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")
_BASIC: Final = "kubernetes.io/basic-auth"
_BASIC_KEYS: Final = ("username", "password")
_REDACTED: Final = "<secret contents redacted>"


def _size_of_secret(data: JSON, field: str) -> Iterator[statuses.Cause]:
    if sum(map(_size_of_base64, data.values())) > _LARGEST:
        yield statuses.too_long(field, _LARGEST)


def _of_type(secret: JSON, _: str, __: JSON) -> Iterator[statuses.Cause]:
    kind, data = secret.get("type", ""), secret.get("data") or {}
    if kind == "kubernetes.io/service-account-token":
        annotations = secret["metadata"].get("annotations") or {}
        if not annotations.get(_ACCOUNT):
            yield statuses.required(f"metadata.annotations[{_ACCOUNT}]")
    if kind == _BASIC and not any(key in data for key in _BASIC_KEYS):
        yield from (statuses.required(f"data[{key}]") for key in _BASIC_KEYS)
    for key in _NEEDED.get(kind, ()):
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            yield statuses.required(f"data[{key}]")
        elif kind in _JSON_TYPES and (problem := _json_problem(data[key])):
            yield statuses.invalid(f"data[{key}]", statuses.shown(_REDACTED), problem)


def _json_problem(encoded: str) -> str:
    """Return why a value is no JSON object, "" if it is one."""
    text = base64.b64decode(encoded)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return go_json_error(text)
    if value is None or isinstance(value, dict):
        return ""
    found = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    what = "Go value of type map[string]interface {}"
    return f"json: cannot unmarshal {found} into {what}"


def _default_secret(obj: JSON) -> None:
    """Fill in the type, and encode ``stringData`` as base64 into ``data``."""
    obj.setdefault("type", "Opaque")
    if given := obj.pop("stringData", None):
        data = obj.setdefault("data", {})
        for key, value in given.items():
            data[key] = base64.b64encode(value.encode()).decode()


SECRETS: Final = kind_of(
    "v1/secrets",
    apply_defaults=_default_secret,
    rules="""
        data{}: config-key keys
        data: size_of_secret
        hook of_type
        """,
    update_rules="type: immutable\ninclude IMMUTABLE",
    selectable_fields="type",
    printer="Name; Type: .type; Data: entries; Age",
)

# The users of bootstrap tokens (plugin/pkg/auth/authenticator/token/bootstrap)

_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_EXTRA_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


def user_of_bootstrap_token(storage: Storage, token: str, now: datetime) -> User | None:
    """Return the user of a bootstrap token, `None` if no secret makes it valid.

    The token's secret must have the right type, must not have expired, and must allow
    the use for authentication.
    """
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        return None
    identity, proof = parts.groups()
    key = (secrets.NAMESPACE, f"bootstrap-token-{identity}")
    stored = storage.collection(SECRETS.resource).get(key)
    if stored is None or "deletionTimestamp" in stored.obj["metadata"]:
        return None
    secret = msgspec.convert(stored.obj, secrets.Secret)
    if not _proves(secret, identity, proof) or not _may_be_used(secret, now):
        return None
    extra = {
        each for each in secrets.decoded(secret, "auth-extra-groups").split(",") if each
    }
    if not all(map(_EXTRA_GROUP.fullmatch, extra)):
        return None
    groups = (*sorted({"system:bootstrappers", *extra}), AUTHENTICATED)
    return User(f"system:bootstrap:{identity}", groups=groups)


def _proves(secret: secrets.Secret, identity: str, proof: str) -> bool:
    known = secrets.bytes_of(secrets.decoded(secret, "token-secret"))
    return (
        secrets.is_bootstrap_token(secret)
        and secrets.decoded(secret, "token-id") == identity
        and hmac.compare_digest(known, proof.encode())
    )


def _may_be_used(secret: secrets.Secret, now: datetime) -> bool:
    if secrets.decoded(secret, "usage-bootstrap-authentication") != "true":
        return False
    return secrets.time_left(secret, now) != timedelta()


# ServiceAccount: the identity of programs in pods


SERVICE_ACCOUNTS: Final = kind_of(
    "v1/serviceaccounts",
    returns_deleted=True,
    printer="Name; Secrets: count .secrets or 0; Age",
)
REST_STORAGE: Final = RESTStorage(
    SERVICE_ACCOUNTS.resource, connect={"token": token_request}
)


def uid_of_account(storage: Storage, namespace: str, name: str) -> str | None:
    """Return the uid of a service account, `None` if there is none."""
    stored = storage.collection(SERVICE_ACCOUNTS.resource).get((namespace, name))
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
        account = self._living(SERVICE_ACCOUNTS, namespace, name)
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
