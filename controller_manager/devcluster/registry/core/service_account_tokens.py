"""The tokens of service accounts: bound tokens, and the requests for them."""

import random
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from jwt.types import Options

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.clock import Clock
from controller_manager.control.key_id import key_id
from controller_manager.devcluster.apiserver import security
from controller_manager.devcluster.apiserver.objects import Call
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.decoding import random_uid
from controller_manager.devcluster.storage import Storage

# Tokens that a TokenRequest issues for accounts (pkg/serviceaccount/claims.go).

ISSUER: Final = security.AUDIENCE
ALGORITHM: Final = "ES256"
"""The algorithm that signs tokens with the key of a cluster."""

_KUBERNETES: Final = "kubernetes.io"
_UNCHECKED: Final[Options] = {
    "verify_aud": False,
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
}
"""The library does not check these: callers check the audience, and the time comes from
the cluster's clock."""

_LEEWAY: Final = timedelta(minutes=1)
"""The time that a token stays valid after the deletion timestamp of its object."""

_CACHED: Final = 4096
"""The most tokens in the cache of issued and verified tokens."""


class BoundTokens:
    """Issues tokens of service accounts, and verifies them.

    Without a key, a secret of this process signs them.
    """

    def __init__(self, storage: Storage, clock: Clock, rng: random.Random) -> None:
        self._storage = storage
        self._clock = clock
        self._rng = rng
        self._key: EllipticCurvePrivateKey | bytes = b""
        self._algorithm = "HS256"
        self._headers: dict[str, str | None] = {"typ": None}
        self._verified: dict[str, JSON] = {}
        self._revoked: dict[str, set[str]] = {}
        self._issued: dict[str, str] = {}

    def sign_with(self, key: EllipticCurvePrivateKey) -> None:
        """Sign tokens with a key on the curve P-256 from now on."""
        self._key, self._algorithm = key, ALGORITHM
        self._headers = {"kid": key_id(key), "typ": None}
        self._verified.clear()

    def issue(self, content: security.AccountToken) -> str:
        """Return a new token."""
        namespace, name = content.namespace, content.name
        now = int(self._clock.now().timestamp())
        token_id = random_uid(self._rng)
        subject = f"system:serviceaccount:{namespace}:{name}"
        self._remember(token_id, subject)
        claims = {
            "aud": list(content.audiences),
            "exp": int(content.ends_at.timestamp()),
            "iat": now,
            "iss": ISSUER,
            "jti": token_id,
            _KUBERNETES: {
                "namespace": namespace,
                **self._claims_of(namespace, content.bound),
                "serviceaccount": {"name": name, "uid": content.uid},
            },
            "nbf": now,
            "sub": subject,
        }
        return jwt.encode(claims, self._signing_key(), self._algorithm, self._headers)

    def _signing_key(self) -> Any:
        """Return the key; the first token without a key makes the secret."""
        if not self._key:
            self._key = self._rng.randbytes(32)
        return self._key

    def _claims_of(self, namespace: str, bound: security.BoundObject | None) -> JSON:
        """Return the claims about an object, and about the node of a pod."""
        if bound is None:
            return {}
        claims = {bound.kind.lower(): {"name": bound.name, "uid": bound.uid}}
        if bound.kind != "Pod":
            return claims
        pod = self._found("pods", namespace, bound.name) or {}
        if node_name := pod.get("spec", {}).get("nodeName"):
            node = self._found("nodes", "", node_name)
            uid = {"uid": node["metadata"]["uid"]} if node else {}
            claims = {"node": {"name": node_name, **uid}, **claims}
        return claims

    def revoke(self, name: str) -> None:
        """Invalidate the tokens of a user that this process has issued lately."""
        ids = {each for each, subject in self._issued.items() if subject == name}
        self._revoked.setdefault(name, set()).update(ids)

    def _remember(self, token_id: str, subject: str) -> None:
        self._issued[token_id] = subject
        if len(self._issued) > _CACHED:
            self._issued.pop(next(iter(self._issued)))

    def identify(self, token: str) -> security.Identity | None:
        """Return the user that a token authenticates, `None` for foreign tokens.

        Raises TokenError if the token is not valid now.
        """
        claims = self._claims(token)
        if claims is None:
            return None
        subject, token_id = claims["sub"], claims["jti"]
        if token_id in self._revoked.get(subject, ()):
            return None
        if self._clock.now().timestamp() >= claims["exp"]:
            msg = "service account token has expired"
            raise security.TokenError(msg)
        return security.Identity(self._user(claims), tuple(claims["aud"]))

    def _claims(self, token: str) -> JSON | None:
        """Return the claims of a token, `None` if another key signed it."""
        if found := self._verified.get(token):
            return found
        if token.count(".") != 2 or not self._key:
            return None
        key = self._key
        public = key if isinstance(key, bytes) else key.public_key()
        try:
            claims: JSON = jwt.decode(
                token, public, [self._algorithm], _UNCHECKED, issuer=ISSUER
            )
        except jwt.InvalidTokenError:
            return None
        if len(self._verified) >= _CACHED:
            self._verified.pop(next(iter(self._verified)))
        self._verified[token] = claims
        return claims

    def _user(self, claims: JSON) -> security.User:
        """Return the user of valid claims; raises TokenError."""
        about = claims[_KUBERNETES]
        namespace, account = about["namespace"], about["serviceaccount"]
        self._check_account(namespace, account)
        extra: dict[str, tuple[str, ...]] = {
            security.CREDENTIAL_ID: (f"JTI={claims['jti']}",)
        }
        if secret := about.get("secret"):
            self._check("secrets", "secret", namespace, secret)
        node, pod = about.get("node"), about.get("pod")
        if pod:
            self._check("pods", "pod", namespace, pod)
            extra |= _facts("pod", pod)
        elif node:
            self._check("nodes", "node", "", node)
        if node:
            extra |= _facts("node", node)
        return security.account_user(namespace, account["name"], account["uid"], extra)

    def _check_account(self, namespace: str, claim: JSON) -> None:
        name = claim["name"]
        account = self._found("serviceaccounts", namespace, name)
        if account is None:
            msg = f'serviceaccounts "{name}" not found'
            raise security.TokenError(msg)
        if self._is_deleted(account):
            msg = f"service account {namespace}/{name} has been deleted"
            raise security.TokenError(msg)
        uid = account["metadata"]["uid"]
        if uid != claim["uid"]:
            msg = f"service account UID ({uid}) does not match claim ({claim['uid']})"
            raise security.TokenError(msg)

    def _check(self, plural: str, what: str, namespace: str, claim: JSON) -> None:
        """Raise TokenError if the object of a claim no longer exists."""
        obj = self._found(plural, namespace, claim["name"])
        if obj is None or self._is_deleted(obj):
            raise security.TokenError("service account token has been invalidated")
        uid = obj["metadata"]["uid"]
        if uid != claim["uid"]:
            msg = (
                f"{what} UID ({uid}) does not match service account {what} ref claim "
                f"({claim['uid']})"
            )
            raise security.TokenError(msg)

    def _found(self, plural: str, namespace: str, name: str) -> JSON | None:
        stored = self._storage.collection(plural).get((namespace, name))
        return stored.obj if stored else None

    def _is_deleted(self, obj: JSON) -> bool:
        """Tell whether the deletion timestamp of an object is older than the leeway."""
        deleted_at = obj["metadata"].get("deletionTimestamp")
        if not deleted_at:
            return False
        return parse_time(deleted_at) < self._clock.now() - _LEEWAY


def _facts(what: str, claim: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the user's extra fields with the name and the uid of a pod or node."""
    return {
        f"authentication.kubernetes.io/{what}-{field}": (claim[field],)
        for field in ("name", "uid")
        if claim.get(field)
    }


# TokenRequest: issues a token for a service account (token.go).

_GROUP: Final = "authentication.k8s.io"
_DEFAULT_LIFETIME: Final = 3600
_SHORTEST: Final = 600
_LONGEST: Final = 2**32
_BINDABLE: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def token_request(call: Call, body: JSON) -> JSON:
    """Issue a token for a service account; return the TokenRequest.

    The server has checked the types in the body. Raises Refusal.
    """
    spec = body.get("spec") or {}
    metadata = call.objects.find(call.kind, call.namespace, call.name).obj["metadata"]
    _check_account(call, body.get("metadata") or {}, metadata["uid"])
    lifetime = spec.get("expirationSeconds")
    if lifetime is None:
        lifetime = _DEFAULT_LIFETIME
    if causes := list(_validate(lifetime)):
        raise statuses.invalid_object(_GROUP, "TokenRequest", call.name, causes)
    audiences = spec.get("audiences") or [security.AUDIENCE]
    reference = spec.get("boundObjectRef")
    bound = None if reference is None else _bound_object(call, reference)
    now = call.objects.clock.now()
    ends_at = now + timedelta(seconds=lifetime)
    token = call.tokens.issue_as(
        security.AccountToken(
            call.namespace, call.name, metadata["uid"], ends_at, audiences, bound
        )
    )
    return {
        "kind": "TokenRequest",
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {
            "name": call.name,
            "namespace": call.namespace,
            "uid": metadata["uid"],
            "creationTimestamp": format_time(now),
        },
        "spec": {
            "audiences": audiences,
            "expirationSeconds": lifetime,
            "boundObjectRef": reference
            and {name: each for name, each in reference.items() if each},
        },
        "status": {"token": token, "expirationTimestamp": format_time(ends_at)},
    }


def _check_account(call: Call, given: JSON, uid: str) -> None:
    """Raise Refusal if the metadata is about another account than the path."""
    name = given.get("name", "")
    if name not in ("", call.name):
        detail = "must match the service account name if specified"
        cause = statuses.invalid("metadata.name", statuses.shown(name), detail)
        raise statuses.invalid_object(_GROUP, "TokenRequest", call.name, [cause])
    if given.get("namespace", "") not in ("", call.namespace):
        message = (
            "the namespace of the provided object does not match the namespace sent "
            "on the request"
        )
        raise statuses.bad_request(message)
    if given.get("uid", "") not in ("", uid):
        why = (
            f"the UID in the token request ({given['uid']}) does not match the UID of "
            f"the service account ({uid})"
        )
        raise statuses.conflict(_GROUP, "TokenRequest", call.name, why)


def _validate(lifetime: int) -> Iterator[statuses.Cause]:
    field = "spec.expirationSeconds"
    if lifetime < _SHORTEST:
        detail = "may not specify a duration less than 10 minutes"
        yield statuses.invalid(field, statuses.shown(lifetime), detail)
    if lifetime > _LONGEST:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield statuses.invalid(field, statuses.shown(lifetime), detail)


def _bound_object(call: Call, reference: JSON) -> security.BoundObject:
    """Return the object that the token is bound to; raises Refusal."""
    kind, version, name, given = (
        reference.get(each, "") for each in ("kind", "apiVersion", "name", "uid")
    )
    if kind not in _BINDABLE or "/" in version:
        group_version = version if "/" in version else f"/{version}"
        message = f"cannot bind token to object of type {group_version}, Kind={kind}"
        raise statuses.bad_request(message)
    namespace = "" if kind == "Node" else call.namespace
    plural = _BINDABLE[kind]
    stored = call.objects.storage.collection(plural).get((namespace, name))
    if stored is None:
        raise statuses.not_found("", plural, name)
    account = stored.obj.get("spec", {}).get("serviceAccountName", "")
    if kind == "Pod" and account != call.name:
        message = (
            f'cannot bind token for serviceaccount "{call.name}" to pod running with '
            f'serviceaccount "{account}"'
        )
        raise statuses.bad_request(message)
    uid = str(stored.obj["metadata"]["uid"])
    if given not in ("", uid):
        why = (
            f"the UID in the bound object reference ({given}) does not match "
            "the UID in record. The object might have been deleted and then recreated"
        )
        raise statuses.conflict("", kind, name, why)
    return security.BoundObject(kind, name, uid)
