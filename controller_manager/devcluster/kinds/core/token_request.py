"""TokenRequest: issues a token for a service account."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from controller_manager.api.times import format_time
from controller_manager.devcluster.server.authentication import AUDIENCE
from controller_manager.devcluster.server.call import Call
from controller_manager.devcluster.server.messages import Message
from controller_manager.devcluster.server.statuses import invalid, invalid_object, shown

JSON = dict[str, Any]

TOKEN_MESSAGES: Final[Mapping[str, Message]] = {
    "TokenRequest": {
        1: "metadata:ObjectMeta",
        2: "spec:TokenRequestSpec",
        3: "status:TokenRequestStatus",
    },
    "TokenRequestSpec": {1: "audiences:[]str", 4: "expirationSeconds:int"},
    "TokenRequestStatus": {1: "token:str", 2: "expirationTimestamp:Time"},
}

_DEFAULT_LIFETIME: Final = 3600
_SHORTEST: Final = 600


def token_request(call: Call, body: JSON) -> JSON:
    """Issue a token for a service account; return the TokenRequest.

    Raises Refusal.
    """
    stored = call.objects.find(call.kind, call.namespace, call.name)
    metadata = stored.obj["metadata"]
    now = call.objects.clock.now()
    spec = body.get("spec", {})
    lifetime = spec.get("expirationSeconds") or _DEFAULT_LIFETIME
    if type(lifetime) is not int or not _SHORTEST <= lifetime < 2**32:
        detail = "may not specify a duration less than 10 minutes"
        cause = invalid("spec.expirationSeconds", shown(lifetime), detail)
        raise invalid_object(
            "authentication.k8s.io", "TokenRequest", metadata["name"], [cause]
        )
    ends_at = now + timedelta(seconds=lifetime)
    token = call.tokens.issue(
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
        "status": {"token": token, "expirationTimestamp": format_time(ends_at)},
    }
