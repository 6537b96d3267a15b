"""Writes: what the API server would do, done to the overlay.

Nothing here sends a write, except as a dry run. To an object that it creates, the API
server adds what controllers read before the manager in charge has created the object,
which replaces the one of the overlay.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import msgspec

from controller_manager.api.scalars import format_time
from controller_manager.client.rest.transport import Request, Response, Transport

from . import answers
from .contents import changed_fields
from .dry_run import DRY_RUN, DryRun
from .entries import Deletion, grace_period_of
from .fields import JSON, viewed, with_value
from .overlay import Overlay
from .patches import APPLY, InvalidPatch, patched
from .reading import Reader, ReadFailed, with_version
from .target import Collection, Target

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5
_LONGEST_BASE: Final = 63 - _SUFFIX
_WITH_GENERATION: Final = frozenset(
    ("apps", "batch", "autoscaling", "policy", "discovery.k8s.io", "networking.k8s.io")
)
_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
_JOB_NAME: Final = "batch.kubernetes.io/job-name"


def generated_name(base: str, rng: random.Random) -> str:
    """Return a name as the API server makes it from generateName."""
    return base[:_LONGEST_BASE] + "".join(rng.choices(_ALPHABET, k=_SUFFIX))


def new_uid(rng: random.Random) -> str:
    """Return a random uid."""
    digits = f"{rng.getrandbits(128):032x}"
    fourth = f"{(int(digits[16], 16) & 3) | 8:x}{digits[17:20]}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{fourth}-{digits[20:]}"


def created(target: Target, sent: JSON, *, uid: str, timestamp: str) -> JSON:
    """Return the object that the server would make of the content of a request."""
    metadata = {
        **sent.get("metadata", {}),
        "name": target.name,
        "uid": uid,
        "creationTimestamp": timestamp,
        "resourceVersion": "",
    }
    if target.namespace:
        metadata["namespace"] = target.namespace
    collection = target.collection
    if collection.group in _WITH_GENERATION or collection.plural == "pods":
        metadata["generation"] = 1
    obj = {"apiVersion": target.api_version, **sent, "metadata": metadata}
    match (collection.group, collection.plural):
        case ("", "pods"):
            return _with_phase(obj, "Pending")
        case ("", "persistentvolumeclaims" | "persistentvolumes"):
            return _with_phase(obj, "Pending")
        case ("", "namespaces"):
            obj["spec"] = {**obj.get("spec", {}), "finalizers": ["kubernetes"]}
            return _with_phase(obj, "Active")
        case ("batch", "jobs"):
            return _job(obj, uid)
    return obj


def _with_phase(obj: JSON, phase: str) -> JSON:
    return {**obj, "status": {"phase": phase, **obj.get("status", {})}}


def _job(obj: JSON, uid: str) -> JSON:
    """Return a job with the selector and the labels that the server generates."""
    spec: dict[str, Any] = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        **obj.get("spec", {}),
    }
    if not spec.get("manualSelector") and not spec.get("selector"):
        name = obj["metadata"]["name"]
        template = dict(spec.get("template", {}))
        metadata = dict(template.get("metadata", {}))
        own = {_CONTROLLER_UID: uid, "controller-uid": uid}
        own |= {_JOB_NAME: name, "job-name": name}
        metadata["labels"] = {**(metadata.get("labels") or {}), **own}
        spec["template"] = {**template, "metadata": metadata}
        spec["selector"] = {"matchLabels": {_CONTROLLER_UID: uid}}
    return {**obj, "spec": spec}


_NAMESPACES: Final = Collection("", "namespaces")
_OF_STATUS: Final = frozenset(("status", "approval"))
_FINALIZERS: Final = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}

Change = Callable[[JSON], JSON]
"""Makes the new state of an object from its state."""


class Writer:
    """Answers the writes of one controller from the overlay."""

    def __init__(
        self, overlay: Overlay, inner: Transport, controller: str, rng: random.Random
    ) -> None:
        self._overlay = overlay
        self._reader = Reader(overlay, inner)
        self._dry_run = DryRun(overlay, inner)
        self._inner = inner
        self._controller = controller
        self._rng = rng

    async def answer(self, target: Target, request: Request) -> Response:
        """Return the answer to a write; raises TransportError if a read fails."""
        try:
            return await self._answer(target, request)
        except answers.Refused as refused:
            return refused.answer
        except ReadFailed as failed:
            return failed.answer
        except (InvalidPatch, msgspec.DecodeError) as error:
            bad = HTTPStatus.BAD_REQUEST
            return answers.refusal(target, bad, "BadRequest", str(error)).answer

    async def _answer(self, target: Target, request: Request) -> Response:
        body = msgspec.json.decode(request.body) if request.body else {}
        body = self._overlay.creations.translated(body)
        match (request.method, target.subresource):
            case ("POST", "eviction"):
                options = body.get("deleteOptions") or {}
                return await self._delete(target, request, options)
            case ("POST", "binding"):
                node = body.get("target", {}).get("name", "")
                path = ("spec", "nodeName")
                await self._change(
                    target, request, {}, lambda obj: with_value(obj, path, node)
                )
                return answers.success()
            case ("POST", "token"):
                why = "a preview writes no tokens"
                raise answers.refusal(target, HTTPStatus.FORBIDDEN, "Forbidden", why)
            case ("POST", ""):
                return await self._create(target, request, body)
            case ("DELETE", "") if target.name:
                return await self._delete(target, request, body)
            case ("DELETE", ""):
                return await self._delete_all(target, request, body)
            case ("PUT" | "PATCH", "scale"):
                return await self._scale(target, request, body)
            case ("PUT", _):
                return await self._replace(target, request, body)
            case ("PATCH", _):
                return await self._patch(target, request, body)
        why = f"a preview does not know {request.method} of {target.subresource}"
        raise answers.refusal(
            target, HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", why
        )

    async def _create(self, target: Target, request: Request, sent: JSON) -> Response:
        metadata = sent.get("metadata", {})
        name = str(metadata.get("name", ""))
        is_generated = not name
        if is_generated:
            name = generated_name(str(metadata.get("generateName", "")), self._rng)
        target = _named(target, name)
        if self._overlay.is_ending(target.namespace):
            await self._refuse_in_ending_namespace(target)
        real = None if is_generated else await self._reader.real(target)
        if self._overlay.view(target.key, real) is not None:
            raise answers.already_exists(target)
        proposed = await self._dry_run.created(target, request, sent)
        if DRY_RUN in request.query:
            return _tried(target, request, proposed)
        made = created(
            target,
            proposed or sent,
            uid=new_uid(self._rng),
            timestamp=format_time(self._overlay.clock.now()),
        )
        made["metadata"].pop("managedFields", None)
        if self._overlay.view(target.key, None) is not None:
            raise answers.already_exists(target)  # another controller was faster
        change = self._overlay.create(target, self._controller, sent, made)
        return self._object(target, request, made, change, HTTPStatus.CREATED)

    async def _refuse_in_ending_namespace(self, target: Target) -> None:
        """Refuse a new object unless its namespace is a new one by now."""
        namespace = Target(_NAMESPACES, "v1", name=target.namespace)
        real = await self._reader.real(namespace)
        if real is None:
            self._overlay.observe_gone(namespace, {})
            raise answers.not_found(namespace)
        if real["metadata"].get("deletionTimestamp"):
            raise answers.namespace_ending(target)
        self._overlay.has_not_ended(target.namespace)

    async def _replace(self, target: Target, request: Request, body: JSON) -> Response:
        def replaced(obj: JSON) -> JSON:
            return _updated(target.subresource, obj, body)

        return await self._change(target, request, body.get("metadata", {}), replaced)

    async def _patch(self, target: Target, request: Request, body: Any) -> Response:  # noqa: ANN401 - JSON
        media_type = request.headers.get("content-type", "")
        metadata = body.get("metadata", {}) if isinstance(body, dict) else {}
        encoded = msgspec.json.encode(_without_preconditions(body))
        is_apply = media_type == APPLY
        if is_apply and not target.subresource and not metadata.get("uid"):
            real = await self._reader.real(target)
            if self._overlay.view(target.key, real) is None:
                return await self._create(target, request, body)

        def changed(obj: JSON) -> JSON:
            after = patched(obj, encoded, media_type)
            return _updated(target.subresource, obj, after, is_patch=True)

        return await self._change(target, request, metadata, changed)

    async def _scale(self, target: Target, request: Request, body: JSON) -> Response:
        replicas = body.get("spec", {}).get("replicas", 0)
        path = ("spec", "replicas")
        metadata = body.get("metadata", {})
        await self._change(
            target, request, metadata, lambda obj: with_value(obj, path, replicas)
        )
        return await self._reader.answer(
            target, Request("GET", request.path, timeout=request.timeout)
        )

    async def _change(
        self, target: Target, request: Request, preconditions: JSON, change: Change
    ) -> Response:
        """Change an object; `preconditions` may have its version and its uid."""
        real = await self._reader.real(target)
        view = self._view(target, real, preconditions)
        after = change(view)
        real = self._real(target, real)
        await self._dry_run.changed(target, request, preconditions)
        if any(True for _ in changed_fields(view, after)):
            number = self._overlay.write(target, self._controller, real or {}, after)
            shown = self._overlay.view(target.key, real)
            return self._object(target, request, shown or after, number)
        # The server makes no new version of an object that stays as it is.
        accept = request.headers.get("accept", "")
        return answers.object_answer(self._reader.versioned(target, view, real), accept)

    def _real(self, target: Target, real: JSON | None) -> JSON | None:
        """Return the newest state of the server's object that is known."""
        entry = self._overlay.entries.get(target.key)
        return entry.real if entry is not None and entry.real is not None else real

    def _view(self, target: Target, real: JSON | None, wanted: JSON) -> JSON:
        """Return the view of an object; raises Refused for a failed precondition."""
        view = self._overlay.view(target.key, real)
        if view is None:
            raise answers.not_found(target)
        if (uid := wanted.get("uid")) and uid != view["metadata"].get("uid"):
            found = view["metadata"].get("uid")
            why = f"Precondition failed: UID in precondition: {uid}, is {found}"
            raise answers.conflict(target, why)
        version = wanted.get("resourceVersion")
        if version and not self._overlay.entries.is_current(target.key, real, version):
            why = (
                "the object has been modified; please apply your changes to the "
                "latest version and try again"
            )
            raise answers.conflict(target, why)
        return view

    async def _delete(
        self, target: Target, request: Request, options: JSON
    ) -> Response:
        real = await self._reader.real(target)
        view = self._view(target, real, options.get("preconditions") or {})
        if not target.subresource:
            await self._dry_run.deleted(target, request, options)
        self._mark(target, real, view, options)
        return answers.success()

    def _mark(
        self, target: Target, real: JSON | None, view: JSON, options: JSON
    ) -> None:
        """Delete an object in the overlay, as far as its finalizers allow."""
        real = self._real(target, real)
        finalizer = _FINALIZERS.get(str(options.get("propagationPolicy", "")))
        metadata = view.get("metadata", {})
        is_created = real is None
        if finalizer and not is_created and not metadata.get("deletionTimestamp"):
            others = metadata.get("finalizers") or []
            path = ("metadata", "finalizers")
            held = with_value(view, path, [*others, finalizer])
            self._overlay.write(target, self._controller, real or {}, held)
        if metadata.get("deletionTimestamp") and not is_created:
            return
        deletion = Deletion(
            self._controller,
            self._overlay.clock.monotonic(),
            format_time(self._overlay.clock.now()),
            grace_period_of(view, options.get("gracePeriodSeconds")),
        )
        self._overlay.delete(target, deletion, real)

    async def _delete_all(
        self, target: Target, request: Request, options: JSON
    ) -> Response:
        """Delete the objects of a namespace."""
        query = tuple(each for each in request.query if each[0] != "dryRun")
        path = target.collection_path()
        reading = replace(request, method="GET", path=path, query=query, body=None)
        answer = await self._inner.request(reading)
        if answer.status != HTTPStatus.OK:
            return answer
        for obj in msgspec.json.decode(answer.body).get("items") or ():
            each = _named(target, obj["metadata"]["name"])
            head = {"apiVersion": target.api_version, **obj}
            if (view := self._overlay.view(each.key, head)) is not None:
                self._mark(each, head, view, options)
        for entry in list(self._overlay.entries.invented(target)):
            if (view := entry.view(None)) is not None:
                self._mark(entry.target, None, view, options)
        return answers.success()

    def _object(
        self,
        target: Target,
        request: Request,
        obj: JSON,
        change: int,
        status: int = HTTPStatus.OK,
    ) -> Response:
        version = viewed(self._overlay.changes.reached(target.collection), change)
        accept = request.headers.get("accept", "")
        return answers.object_answer(with_version(obj, version), accept, status)


def _tried(target: Target, request: Request, proposed: JSON | None) -> Response:
    """Return the answer to a dry run of a controller, which changes no view."""
    if proposed is None:
        why = "a preview sends no dry run of this object"
        code = HTTPStatus.METHOD_NOT_ALLOWED
        return answers.refusal(target, code, "MethodNotAllowed", why).answer
    accept = request.headers.get("accept", "")
    return answers.object_answer(proposed, accept, HTTPStatus.CREATED)


def _named(target: Target, name: str) -> Target:
    return Target(target.collection, target.version, target.namespace, name)


def _without_preconditions(patch: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a patch without version and uid, which are no changes."""
    if not isinstance(patch, dict) or not isinstance(patch.get("metadata"), dict):
        return patch
    unset = ("resourceVersion", "uid")
    metadata = {
        name: value for name, value in patch["metadata"].items() if name not in unset
    }
    return {**patch, "metadata": metadata}


def _updated(
    subresource: str, obj: JSON, after: JSON, *, is_patch: bool = False
) -> JSON:
    """Return the new state of an object after an update of it or a subresource."""
    if subresource in _OF_STATUS:
        changed = {**obj, "status": after.get("status", {})}
    elif subresource == "finalize":
        finalizers = after.get("spec", {}).get("finalizers") or []
        return {**obj, "spec": {**obj.get("spec", {}), "finalizers": finalizers}}
    elif "status" in obj and not is_patch:
        changed = {**after, "status": obj["status"]}
    else:
        changed = after
    kept = obj.get("metadata", {})
    metadata = {**kept}
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        metadata.pop(name, None)
        if name in after.get("metadata", {}):
            metadata[name] = after["metadata"][name]
    return {**changed, "metadata": metadata}
