"""Reviews of users: who has sent a request (``kubectl auth whoami``), or a token."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Call, RESTStorage
from controller_manager.devcluster.apiserver.security import AUDIENCE, TokenError
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.rbac.authorizer import quoted
from controller_manager.devcluster.registry.reviews import reviewed
from controller_manager.devcluster.scheme.statuses import bad_request

_INVALID: Final = "invalid bearer token"


def _status(call: Call, token: str, wanted: Sequence[str]) -> JSON:
    """Return the status for a token that is meant for one of the `wanted` audiences."""
    try:
        found = call.tokens.identify(token)
    except TokenError as error:
        return _refused(f"[{_INVALID}, {error}]")
    if found is None:
        return _refused(_INVALID)
    audiences = [each for each in wanted if each in found.audiences]
    if not audiences:
        why = (
            f"token audiences {quoted(found.audiences)} is invalid for the target "
            f"audiences {quoted(wanted)}"
        )
        return _refused(f"[{_INVALID}, {why}]")
    return {
        "authenticated": True,
        "user": found.user.as_json(),
        "audiences": audiences,
    }


def _refused(error: str) -> JSON:
    return {"user": {}, "error": error}


def _review_token(call: Call, obj: JSON) -> JSON:
    """Return the review with its status; raises Refusal without a token."""
    spec = obj.get("spec") or {}
    if not spec.get("token"):
        message = "token is required for TokenReview in authentication"
        raise bad_request(message)
    wanted = spec.get("audiences") or [AUDIENCE]
    return reviewed(call, obj, _status(call, spec["token"], wanted))


TOKEN_REVIEWS: Final = kind_of("authentication.k8s.io/v1", "tokenreviews")
TOKEN_STORAGE: Final = RESTStorage(TOKEN_REVIEWS.resource, create=_review_token)


def _review_self(call: Call, obj: JSON) -> JSON:
    """Return the review with the user of the request."""
    return {
        "kind": call.kind.kind,
        "apiVersion": call.kind.api_version,
        "metadata": {
            **obj.get("metadata", {}),
            "creationTimestamp": format_time(call.objects.clock.now()),
        },
        "status": {"userInfo": call.user.as_json()},
    }


SELF_REVIEWS: Final = kind_of("authentication.k8s.io/v1", "selfsubjectreviews")
SELF_STORAGE: Final = RESTStorage(SELF_REVIEWS.resource, create=_review_self)
