"""TokenRequest: issues a token for a service account (token.go)."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import msgspec
from msgspec import Struct, field

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_found,
    shown,
)
from controller_manager.devcluster.server.registry.rest_storage import Call
from controller_manager.devcluster.server.security.authentication import (
    AUDIENCE,
    AccountToken,
    BoundObject,
)

_GROUP: Final = "authentication.k8s.io"
_DEFAULT_LIFETIME: Final = 3600
_SHORTEST: Final = 600
_LONGEST: Final = 2**32
_BINDABLE: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class _Reference(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The object that the token is bound to."""

    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class _Spec(Struct, frozen=True, rename="camel"):
    """The spec of a TokenRequest."""

    audiences: list[str] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: _Reference | None = None


class _Metadata(Struct, frozen=True):
    """The metadata of a TokenRequest, which may name the account."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Request(Struct, frozen=True):
    """A TokenRequest as a client sends it."""

    metadata: _Metadata | None = field(default_factory=_Metadata)
    spec: _Spec | None = field(default_factory=_Spec)


def token_request(call: Call, body: JSON) -> JSON:
    """Issue a token for a service account; return the TokenRequest.

    Raises Refusal.
    """
    request = _read(body)
    spec = request.spec or _Spec()
    metadata = call.objects.find(call.kind, call.namespace, call.name).obj["metadata"]
    _check_account(call, request.metadata or _Metadata(), metadata["uid"])
    lifetime = spec.expiration_seconds
    if lifetime is None:
        lifetime = _DEFAULT_LIFETIME
    if causes := list(_validate(lifetime)):
        raise invalid_object(_GROUP, "TokenRequest", call.name, causes)
    audiences = spec.audiences or [AUDIENCE]
    reference = spec.bound_object_ref
    bound = _bound_object(call, reference) if reference else None
    now = call.objects.clock.now()
    ends_at = now + timedelta(seconds=lifetime)
    token = call.tokens.issue_as(
        AccountToken(
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
            "boundObjectRef": msgspec.to_builtins(reference),
        },
        "status": {"token": token, "expirationTimestamp": format_time(ends_at)},
    }


def _read(body: JSON) -> _Request:
    """Return the metadata and the spec of a body; raises Refusal for wrong types."""
    try:
        return msgspec.convert(body, _Request)
    except msgspec.ValidationError as error:
        message = (
            'TokenRequest in version "v1" cannot be handled as a TokenRequest: '
            f"json: {error}"
        )
        raise bad_request(message) from None


def _check_account(call: Call, given: _Metadata, uid: str) -> None:
    """Raise Refusal if the metadata is about another account than the path."""
    if given.name not in ("", call.name):
        detail = "must match the service account name if specified"
        cause = invalid("metadata.name", shown(given.name), detail)
        raise invalid_object(_GROUP, "TokenRequest", call.name, [cause])
    if given.namespace not in ("", call.namespace):
        message = (
            "the namespace of the provided object does not match the namespace sent "
            "on the request"
        )
        raise bad_request(message)
    if given.uid not in ("", uid):
        why = (
            f"the UID in the token request ({given.uid}) does not match the UID of "
            f"the service account ({uid})"
        )
        raise conflict(_GROUP, "TokenRequest", call.name, why)


def _validate(lifetime: int) -> Iterator[Cause]:
    field_name = "spec.expirationSeconds"
    if lifetime < _SHORTEST:
        detail = "may not specify a duration less than 10 minutes"
        yield invalid(field_name, shown(lifetime), detail)
    if lifetime > _LONGEST:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield invalid(field_name, shown(lifetime), detail)


def _bound_object(call: Call, reference: _Reference) -> BoundObject:
    """Return the object that the token is bound to; raises Refusal."""
    kind, version, name = reference.kind, reference.api_version, reference.name
    if kind not in _BINDABLE or "/" in version:
        group_version = version if "/" in version else f"/{version}"
        message = f"cannot bind token to object of type {group_version}, Kind={kind}"
        raise bad_request(message)
    namespace = "" if kind == "Node" else call.namespace
    plural = _BINDABLE[kind]
    stored = call.objects.storage.collection(plural).get((namespace, name))
    if stored is None:
        raise not_found("", plural, name)
    account = stored.obj.get("spec", {}).get("serviceAccountName", "")
    if kind == "Pod" and account != call.name:
        message = (
            f'cannot bind token for serviceaccount "{call.name}" to pod running with '
            f'serviceaccount "{account}"'
        )
        raise bad_request(message)
    uid = str(stored.obj["metadata"]["uid"])
    if reference.uid not in ("", uid):
        why = (
            f"the UID in the bound object reference ({reference.uid}) does not match "
            "the UID in record. The object might have been deleted and then recreated"
        )
        raise conflict("", kind, name, why)
    return BoundObject(kind, name, uid)
