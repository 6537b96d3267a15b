"""TokenRequest: issues a token for a service account (token.go)."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from controller_manager.api.times import format_time
from controller_manager.devcluster.server.authentication import AUDIENCE, BoundObject
from controller_manager.devcluster.server.call import Call
from controller_manager.devcluster.server.messages import Message
from controller_manager.devcluster.server.statuses import (
    Cause,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_found,
    shown,
)

JSON = dict[str, Any]

TOKEN_MESSAGES: Final[Mapping[str, Message]] = {
    "TokenRequest": {
        1: "metadata:ObjectMeta",
        2: "spec:TokenRequestSpec",
        3: "status:TokenRequestStatus",
    },
    "TokenRequestSpec": {
        1: "audiences:[]str",
        3: "boundObjectRef:BoundObjectReference",
        4: "expirationSeconds:int",
    },
    "BoundObjectReference": {
        1: "kind:str",
        2: "apiVersion:str",
        3: "name:str",
        4: "uid:str",
    },
    "TokenRequestStatus": {1: "token:str", 2: "expirationTimestamp:Time"},
}

_DEFAULT_LIFETIME: Final = 3600
_SHORTEST: Final = 600
_LONGEST: Final = 2**32
_BINDABLE: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def token_request(call: Call, body: JSON) -> JSON:
    """Issue a token for a service account; return the TokenRequest.

    Raises Refusal.
    """
    stored = call.objects.find(call.kind, call.namespace, call.name)
    metadata = stored.obj["metadata"]
    now = call.objects.clock.now()
    spec = body.get("spec") or {}
    lifetime = spec.get("expirationSeconds")
    if lifetime is None:
        lifetime = _DEFAULT_LIFETIME
    if causes := list(_validate(lifetime)):
        raise invalid_object(
            "authentication.k8s.io", "TokenRequest", metadata["name"], causes
        )
    audiences = spec.get("audiences") or [AUDIENCE]
    reference = spec.get("boundObjectRef")
    bound = _bound_object(call, reference) if reference else None
    ends_at = now + timedelta(seconds=lifetime)
    token = call.tokens.issue(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        ends_at,
        audiences,
        bound,
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
            "audiences": audiences,
            "expirationSeconds": lifetime,
            "boundObjectRef": reference,
        },
        "status": {"token": token, "expirationTimestamp": format_time(ends_at)},
    }


def _validate(lifetime: Any) -> Iterator[Cause]:
    field = "spec.expirationSeconds"
    if type(lifetime) is not int or lifetime < _SHORTEST:
        detail = "may not specify a duration less than 10 minutes"
        yield invalid(field, shown(lifetime), detail)
    elif lifetime > _LONGEST:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield invalid(field, shown(lifetime), detail)


def _bound_object(call: Call, reference: JSON) -> BoundObject:
    """Return the object that a token is to be bound to; raises Refusal."""
    kind, version = reference.get("kind", ""), reference.get("apiVersion", "")
    name, wanted_uid = reference.get("name", ""), reference.get("uid", "")
    if kind not in _BINDABLE or "/" in version:
        group_version = version if "/" in version else f"/{version}"
        message = f"cannot bind token to object of type {group_version}, Kind={kind}"
        raise bad_request(message)
    namespace = "" if kind == "Node" else call.namespace
    plural = _BINDABLE[kind]
    stored = call.objects.storage.collection(plural).get((namespace, name))
    if stored is None:
        raise not_found("", plural, name)
    user = stored.obj.get("spec", {}).get("serviceAccountName", "")
    if kind == "Pod" and user != call.name:
        message = (
            f'cannot bind token for serviceaccount "{call.name}" to pod running with '
            f'serviceaccount "{user}"'
        )
        raise bad_request(message)
    uid = stored.obj["metadata"]["uid"]
    if wanted_uid not in ("", uid):
        why = (
            f"the UID in the bound object reference ({wanted_uid}) does not match the "
            f"UID in record. The object might have been deleted and then recreated"
        )
        raise conflict("", kind, name, why)
    return BoundObject(kind, name, uid)
