"""Requests that are answered rather than stored: tokens and reviews."""

from datetime import timedelta
from typing import Any, Final

from controller_manager.api.times import format_time
from controller_manager.clock import Clock
from controller_manager.devcluster.auth import AUDIENCE, Tokens
from controller_manager.devcluster.kinds import Kind

JSON = dict[str, Any]

_DEFAULT_LIFETIME: Final = 3600


def review(kind: Kind, obj: JSON, tokens: Tokens) -> JSON | None:
    """Return the answer to a review; `None` if `kind` is none."""
    match kind.kind:
        case "TokenReview":
            status = _token_status(obj.get("spec", {}).get("token", ""), tokens)
        case "SubjectAccessReview":
            user = obj.get("spec", {}).get("user", "")
            status = {"allowed": tokens.is_known(user)}
        case "SelfSubjectAccessReview":
            status = {"allowed": True}
        case _:
            return None
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": obj.get("metadata", {}),
        "spec": obj.get("spec", {}),
        "status": status,
    }


def _token_status(token: str, tokens: Tokens) -> JSON:
    user = tokens.lookup(token)
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user.as_json(), "audiences": [AUDIENCE]}


def token_request(body: JSON, account: JSON, tokens: Tokens, clock: Clock) -> JSON:
    """Issue a token for a service account; return the TokenRequest."""
    metadata = account["metadata"]
    now = clock.now()
    spec = body.get("spec", {})
    lifetime = int(spec.get("expirationSeconds") or _DEFAULT_LIFETIME)
    token = tokens.issue(metadata["namespace"], metadata["name"], metadata["uid"])
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "creationTimestamp": format_time(now),
        },
        "spec": {
            "audiences": spec.get("audiences") or [AUDIENCE],
            "expirationSeconds": lifetime,
            "boundObjectRef": spec.get("boundObjectRef"),
        },
        "status": {
            "token": token,
            "expirationTimestamp": format_time(now + timedelta(seconds=lifetime)),
        },
    }
