"""Requests that are answered rather than stored: tokens and reviews."""

from datetime import timedelta
from typing import Any, Final

from controller_manager.api.times import format_time
from controller_manager.clock import Clock
from controller_manager.devcluster.auth import AUDIENCE, Tokens, User
from controller_manager.devcluster.kinds import Kind
from controller_manager.devcluster.rbac import Attempt, Authorizer
from controller_manager.devcluster.statuses import invalid, invalid_object
from controller_manager.devcluster.validation import shown

JSON = dict[str, Any]

_DEFAULT_LIFETIME: Final = 3600
_SHORTEST: Final = 600


def review(
    kind: Kind, obj: JSON, tokens: Tokens, authorizer: Authorizer, asking: User
) -> JSON | None:
    """Return the answer to a review; `None` if `kind` is none."""
    spec = obj.get("spec", {})
    match kind.kind:
        case "TokenReview":
            status = _token_status(spec.get("token", ""), tokens)
        case "SubjectAccessReview":
            user = User(spec.get("user", ""), "", tuple(spec.get("groups") or ()))
            allowed = authorizer.allows(user, _attempt(spec))
            if not authorizer.enforced:
                allowed = tokens.is_known(user.name)
            status = {"allowed": allowed}
        case "SelfSubjectAccessReview":
            status = {"allowed": authorizer.allows(asking, _attempt(spec))}
        case _:
            return None
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": obj.get("metadata", {}),
        "spec": obj.get("spec", {}),
        "status": status,
    }


def _attempt(spec: JSON) -> Attempt:
    if path := spec.get("nonResourceAttributes"):
        return Attempt(path.get("verb", ""), path=path.get("path", ""))
    wanted = spec.get("resourceAttributes") or {}
    return Attempt(
        wanted.get("verb", ""),
        group=wanted.get("group", ""),
        resource=wanted.get("resource", ""),
        subresource=wanted.get("subresource", ""),
        namespace=wanted.get("namespace", ""),
        name=wanted.get("name", ""),
    )


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
    lifetime = spec.get("expirationSeconds") or _DEFAULT_LIFETIME
    if type(lifetime) is not int or not _SHORTEST <= lifetime < 2**32:
        cause = invalid(
            "spec.expirationSeconds",
            shown(lifetime),
            "may not specify a duration less than 10 minutes",
        )
        raise invalid_object(
            "authentication.k8s.io", "TokenRequest", metadata["name"], [cause]
        )
    ends_at = now + timedelta(seconds=lifetime)
    token = tokens.issue(
        metadata["namespace"], metadata["name"], metadata["uid"], ends_at
    )
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
            "expirationTimestamp": format_time(ends_at),
        },
    }
