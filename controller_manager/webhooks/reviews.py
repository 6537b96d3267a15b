"""Answers the reviews of an API server: AdmissionReview and ConversionReview, v1.

Upstream: controller-runtime's pkg/webhook/admission and pkg/webhook/conversion.
"""

import asyncio
import base64
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

import msgspec
from msgspec import Raw, Struct

from controller_manager.api.apiextensions.conversion import ConversionError, converted
from controller_manager.api.apiextensions.definition import Definition
from controller_manager.api.authentication.v1 import UserInfo
from controller_manager.api.json_objects import JSON, Decoder
from controller_manager.client.rest.client import Client
from controller_manager.observability.defects import Defects
from controller_manager.runtime.admission import (
    AdmissionRequest,
    AnyWebhook,
    Mutates,
    Operation,
    Refused,
)
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.registry import Registry

from .patch import patch_of

_SHARE: Final = 0.9
"""The part of the API server's time that a function may take, so that it is told."""

_BATCH: Final = 50
"""Objects that are converted before others have their turn."""


class BadReview(Exception):
    """A request is no review; the message says what is wrong."""


class _Question(Struct, rename="camel", frozen=True):
    uid: str
    operation: str = ""
    name: str = ""
    object: Raw = Raw(b"null")
    old_object: Raw = Raw(b"null")
    user_info: UserInfo = UserInfo()
    dry_run: bool | None = None
    sub_resource: str = ""
    desired_api_version: str = msgspec.field(name="desiredAPIVersion", default="")
    objects: list[JSON] = []


class _Review(Struct, rename="camel", frozen=True):
    kind: str
    api_version: str
    request: _Question


Hook = Callable[[_Question, float], Awaitable[JSON]]


class Reviews:
    """The functions of the controllers of a build, by the paths of their webhooks."""

    def __init__(
        self,
        build: Registry,
        client_of: Callable[[Descriptor], Client],
        defects: Defects,
        panicked: Callable[[], None] = lambda: None,
    ) -> None:
        """`client_of` returns the client of a controller.

        `panicked` is called when a function raises an unexpected exception, which is
        logged.
        """
        self._defects = defects
        self._panicked = panicked
        self._hooks: dict[str, tuple[str, Hook]] = {}
        for each in build.descriptors:
            for webhook in each.webhooks:
                hook: Hook = partial(self._admit, webhook, client_of(each))
                self._hooks[path_of(webhook)] = ("AdmissionReview", hook)
        for definition in build.converted:
            hook = partial(self._convert, definition)
            self._hooks[path_of_conversion(definition)] = ("ConversionReview", hook)

    @property
    def paths(self) -> list[str]:
        """The paths of all webhooks."""
        return list(self._hooks)

    async def answer(self, path: str, body: bytes, seconds: float) -> bytes:
        """Return the answer to a review; the API server waits for so many seconds.

        Raises KeyError for an unknown path, and BadReview.
        """
        kind, hook = self._hooks[path]
        try:
            review = msgspec.json.decode(body, type=_Review)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            msg = f"no review of version v1: {error}"
            raise BadReview(msg) from error
        version = review.api_version
        if (review.kind, version.rpartition("/")[2]) != (kind, "v1"):
            msg = f"wanted {kind} of version v1, got {review.kind} {version}"
            raise BadReview(msg)
        response = await hook(review.request, seconds * _SHARE)
        response["uid"] = review.request.uid
        head = {"apiVersion": version, "kind": kind, "response": response}
        return msgspec.json.encode(head)

    async def _admit(
        self, webhook: AnyWebhook, client: Client, question: _Question, seconds: float
    ) -> JSON:
        """Call a function for a write; return the response."""
        name, wanted = webhook.function.__name__, webhook.resource.type
        try:
            request = _request(question, Decoder(wanted), client)
        except msgspec.DecodeError as error:
            problem = f"the object is no {wanted.__name__}: {error}"
            return _denied(422, "Invalid", problem)
        try:
            async with asyncio.timeout(seconds):
                result = webhook.function(request)
                if inspect.isawaitable(result):
                    result = await result
            response: JSON = {"allowed": True}
            if isinstance(webhook, Mutates) and request.operation != "DELETE":
                response |= _patch(question.object, request.object, result)
        except Refused as refused:
            response = _refusal(refused, webhook, question)
        except TimeoutError:
            problem = f"{name} has taken longer than {seconds:g} s"
            response = _denied(504, "Timeout", problem)
        except Exception as error:  # noqa: BLE001 - logged, and told
            self._report(error, name, operation=request.operation)
            problem = f"{name} failed: {type(error).__name__}: {error}"
            response = _denied(500, "InternalError", problem)
        return response | {"warnings": request.warnings}

    async def _convert(
        self, definition: Definition[Any], question: _Question, seconds: float
    ) -> JSON:
        """Return all objects in the version that is asked for, or what is wrong."""
        found: list[JSON] = []
        try:
            async with asyncio.timeout(seconds):
                for each in question.objects:
                    version = question.desired_api_version
                    found.append(converted(definition, each, version))
                    if len(found) % _BATCH == 0:
                        await asyncio.sleep(0)
        except ConversionError as error:
            if not isinstance(error.__cause__, ValueError):
                self._report(error, path_of_conversion(definition))
            return {"result": {"status": "Failure", "message": str(error)}}
        except TimeoutError:
            counts = f"{len(found)} of {len(question.objects)} objects"
            problem = f"only {counts} were converted in {seconds:g} s"
            return {"result": {"status": "Failure", "message": problem}}
        return {"convertedObjects": found, "result": {"status": "Success"}}

    def _report(self, error: Exception, function: str, **details: str) -> None:
        self._panicked()
        self._defects.report("webhooks", error, function, **details)


def path_of(webhook: AnyWebhook) -> str:
    """Return the path of a webhook's URL."""
    return f"/{'mutate' if isinstance(webhook, Mutates) else 'validate'}/{webhook.name}"


def path_of_conversion(definition: Definition[Any]) -> str:
    """Return the path of the URL that converts the objects of a definition."""
    return f"/convert/{definition.resource.group_resource}"


def _request(
    question: _Question, decoder: Decoder[Any], client: Client
) -> AdmissionRequest[Any]:
    """Return the request with its objects; raises msgspec.DecodeError."""
    operation = cast(Operation, question.operation)
    old = None if operation == "CREATE" else decoder.decode(question.old_object)
    return AdmissionRequest(
        operation,
        old if operation == "DELETE" else decoder.decode(question.object),
        old,
        question.user_info,
        client,
        bool(question.dry_run),
        question.sub_resource,
    )


def _patch(given: Raw, old: object, new: object) -> JSON:
    """Return what a mutation has changed; raises TypeError if it is no such object."""
    if not isinstance(new, type(old)):
        msg = f"it returned a {type(new).__name__}, and no {type(old).__name__}"
        raise TypeError(msg)
    forms: list[JSON] = [
        msgspec.json.decode(msgspec.json.encode(each)) for each in (given, old, new)
    ]
    # A new object may lack version and kind, which never change.
    patch = patch_of(*({**each, "apiVersion": "", "kind": ""} for each in forms))
    if not patch:
        return {}
    text = base64.b64encode(msgspec.json.encode(patch)).decode()
    return {"patch": text, "patchType": "JSONPatch"}


def _denied(code: int, reason: str, message: str, **more: JSON) -> JSON:
    status = {"code": code, "reason": reason, "message": message, **more}
    return {"allowed": False, "status": status}


def _refusal(refused: Refused, webhook: AnyWebhook, question: _Question) -> JSON:
    """Return the refusal of an object, which the API server passes on to the user."""
    if not refused.fields:
        return _denied(403, "Forbidden", str(refused))
    causes = [
        {"reason": "FieldValueInvalid", "field": each.field, "message": each.message}
        for each in refused.fields
    ]
    resource = webhook.resource
    about = {"group": resource.group, "kind": resource.kind, "name": question.name}
    details = {**about, "causes": causes}
    return _denied(422, "Invalid", str(refused), details=details)
