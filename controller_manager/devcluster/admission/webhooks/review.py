"""AdmissionReview: the request to a webhook, and its answer.

Upstream: pkg/admission/plugin/webhook/request/admissionreview.go.
"""

import base64
import binascii
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.admission.writes import in_requested, request_of
from controller_manager.devcluster.scheme.bodies import go_json_error
from controller_manager.devcluster.server.rest.admission import Write
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.webhook.failures import Failure

from .hooks import Hook
from .outcomes import Answer, Outcome

_GROUP: Final = "admission.k8s.io"
_KIND: Final = "AdmissionReview"
_VERSIONS: Final = ("v1", "v1beta1")
_INVALID: Final = "received invalid webhook response: "
_FAILED: Final = "failed to call webhook: "


class Unsuitable(Exception):
    """A webhook does not accept the reviews of this server."""


class Question(Struct, frozen=True):
    """A review without its uid. `subject` is equal for equal requests."""

    version: str
    request: JSON
    subject: bytes

    def body(self, uid: str) -> bytes:
        """Return the review with a uid."""
        head = {"kind": _KIND, "apiVersion": f"{_GROUP}/{self.version}"}
        return msgspec.json.encode({**head, "request": {"uid": uid, **self.request}})


def question_of(hook: Hook, write: Write, kind: Kind) -> Question:
    """Return the review of a write, with its objects in the version of `kind`.

    Raises Unsuitable.
    """
    accepted = hook.config.get("admissionReviewVersions") or ()
    version = next((each for each in accepted if each in _VERSIONS), None)
    if version is None:
        msg = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
        raise Unsuitable(f"could not create admission objects: {msg}")
    request = request_of(write, kind)
    request["object"] = in_requested(write, kind, write.obj)
    request["oldObject"] = in_requested(write, kind, write.old)
    subject = {**request, "object": _without_managers(request["object"])}
    encoded = msgspec.json.encode((hook.identity, subject), order="deterministic")
    return Question(version, request, encoded)


def _without_managers(obj: JSON | None) -> JSON | None:
    """Return an object without the fields that follow from others or the request."""
    if obj is None or "managedFields" not in (obj.get("metadata") or ()):
        return obj
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


class _Status(Struct, frozen=True):
    status: str = ""
    message: str = ""
    reason: str = ""
    details: JSON | None = None
    code: int = 0


class _Response(Struct, frozen=True):
    uid: str = ""
    allowed: bool = False
    status: _Status | None = None
    patch: str | None = None
    patch_type: str | UnsetType | None = field(name="patchType", default=UNSET)
    warnings: list[str] | None = None


class _Review(Struct, frozen=True):
    kind: str = ""
    api_version: str = field(name="apiVersion", default="")
    response: _Response | None = None


def answer_of(body: bytes, uid: str, version: str, *, mutates: bool) -> Outcome:
    """Read the answer of a webhook to a review with this uid and version."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except msgspec.ValidationError as error:
        return Failure(f"{_FAILED}json: cannot unmarshal the response: {error}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        why = f"couldn't get version/kind; json parse error: {go_json_error(body)}"
        return Failure(_FAILED + why)
    problem = _problem(review, uid, version, mutates=mutates)
    if problem:
        return Failure(_INVALID + problem)
    assert review.response is not None  # noqa: S101 - it is no problem
    return _read(review.response)


def _problem(review: _Review, uid: str, version: str, *, mutates: bool) -> str:
    """Return the error in an answer (VerifyAdmissionResponse)."""
    response = review.response
    if response is None:
        return "webhook response was absent"
    if version == "v1beta1":
        return ""
    if response.uid != uid:
        return f'expected response.uid="{uid}", got "{response.uid}"'
    group, _, found = review.api_version.rpartition("/")
    if (group, found, review.kind) != (_GROUP, version, _KIND):
        got = f"{group}/{found}, Kind={review.kind}"
        wanted = f"{_GROUP}/{version}, Kind={_KIND}"
        return f"expected webhook response of {wanted}, got {got}"
    return _patch_problem(response, mutates=mutates)


def _patch_problem(response: _Response, *, mutates: bool) -> str:
    type_ = response.patch_type
    has_type = type_ is not UNSET and type_ is not None
    if not mutates:
        if response.patch:
            return "validating webhook may not return response.patch"
        if has_type:
            return "validating webhook may not return response.patchType"
        return ""
    if response.patch and not has_type:
        return "webhook returned response.patch but not response.patchType"
    if has_type and not response.patch:
        return "webhook returned response.patchType but not response.patch"
    return 'webhook returned invalid response.patchType of ""' if type_ == "" else ""


def _read(response: _Response) -> Outcome:
    warnings = tuple(response.warnings or ())
    if not response.allowed:
        status = msgspec.to_builtins(response.status) if response.status else {}
        return Answer(allowed=False, status=status, warnings=warnings)
    if not response.patch:
        return Answer(allowed=True, warnings=warnings)
    if response.patch_type not in (UNSET, None, "JSONPatch"):
        return Failure(f'unsupported patch type "{response.patch_type}"')
    try:
        patch = msgspec.json.decode(base64.b64decode(response.patch, validate=True))
    except (msgspec.DecodeError, binascii.Error, UnicodeDecodeError, RecursionError):
        return Failure(
            "received undecodable patch in webhook response: it is no JSON in base64"
        )
    if not isinstance(patch, list):
        return Failure(
            "received undecodable patch in webhook response: json: cannot unmarshal "
            "object into Go value of type jsonpatch.Patch"
        )
    return Answer(allowed=True, patch=patch, warnings=warnings)
