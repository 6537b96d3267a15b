"""The tokens of service accounts that secrets hold (pkg/serviceaccount/legacy.go)."""

import base64
import hmac
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.core.configmap import KIND as CONFIG_MAP
from controller_manager.devcluster.kinds.core.secret import KIND as SECRET
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.security.authentication import (
    User,
    account_user,
)

from .strategy import KIND as ACCOUNT

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
            SECRET, namespace, str(claims.get(f"{_CLAIM}/secret.name", ""))
        )
        account = self._living(ACCOUNT, namespace, name)
        if secret is None or not _holds(secret, token):
            return None
        if account is None or account["metadata"]["uid"] != uid:
            return None
        self._record_use(secret)
        return account_user(namespace, name, uid)

    def _living(self, kind: Kind, namespace: str, name: str) -> JSON | None:
        """Return an object that is not being deleted."""
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
                SECRET,
                metadata["namespace"],
                metadata["name"],
                {**secret, "metadata": used},
            )


def track_account_tokens(objects: Objects) -> None:
    """Record the date from which on the use of tokens is recorded.

    The legacy-serviceaccount-token-cleaner-controller reads it. Upstream:
    pkg/controlplane/controller/legacytokentracking.
    """
    if objects.has(CONFIG_MAP, "kube-system", _TRACKING):
        return  # an earlier server has stored the date
    since = f"{objects.clock.now():%Y-%m-%d}"
    tracking = {"metadata": {"name": _TRACKING}, "data": {"since": since}}
    objects.create(CONFIG_MAP, "kube-system", tracking)


def _holds(secret: JSON, token: str) -> bool:
    """Tell whether a secret holds a token, and is not marked as invalid."""
    encoded = base64.b64encode(token.encode()).decode()
    held = (secret.get("data") or {}).get("token", "")
    labels = secret["metadata"].get("labels") or {}
    return hmac.compare_digest(held, encoded) and _INVALID_SINCE not in labels
