"""POST, PUT, PATCH and DELETE."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.server.apimachinery.statuses import (
    method_not_allowed,
    not_implemented,
    success,
)
from controller_manager.devcluster.server.fields.field_manager import FieldManager
from controller_manager.devcluster.server.handlers.applying import (
    apply_configuration,
    apply_scale,
)
from controller_manager.devcluster.server.handlers.attempts import attempted
from controller_manager.devcluster.server.handlers.patch import (
    APPLY,
    check_patch_type,
    patched,
)
from controller_manager.devcluster.server.http.connections import (
    connection_of,
    options_of,
)
from controller_manager.devcluster.server.http.negotiation import (
    check_connect_body,
    check_object,
    decode_connect_body,
    decode_delete_options,
    decode_json,
    decode_object,
    header,
    strict_error,
)
from controller_manager.devcluster.server.http.responses import (
    JSON_HEADERS,
    encode_list,
    json_response,
    with_warnings,
    written,
)
from controller_manager.devcluster.server.http.routing import Target
from controller_manager.devcluster.server.registry.field_owners import field_manager
from controller_manager.devcluster.server.registry.objects import Managed, Objects
from controller_manager.devcluster.server.registry.rest_storage import (
    Call,
    RESTStorages,
)
from controller_manager.devcluster.server.registry.scale import scale_of, scaled
from controller_manager.devcluster.server.rest.admission import (
    Operation,
    Submission,
    Write,
)
from controller_manager.devcluster.server.rest.catalogue import Catalogue
from controller_manager.devcluster.server.rest.conversion import in_version, to_stored
from controller_manager.devcluster.server.rest.deletion import Deletion
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.rest.selection import (
    Selection,
    parse_selection,
)
from controller_manager.devcluster.server.security.authentication import Tokens
from controller_manager.devcluster.server.security.authorization import Authorizer
from controller_manager.devcluster.server.storage.storage import Key, Stored

Select = Callable[[Target, Selection, int | None], list[tuple[Key, Stored]]]

_WHOLE_OBJECTS: Final = frozenset(("", "status"))
"""Subresources whose body is the whole object, for every kind that has them."""


class Writer:
    """Answers requests that change objects."""

    def __init__(
        self,
        objects: Objects,
        catalogue: Catalogue,
        tokens: Tokens,
        authorizer: Authorizer,
        storages: RESTStorages,
        select: Select,
    ) -> None:
        """Take the objects, and the services that the handlers of a resource need.

        `select` returns the objects that a DELETE of a collection removes.
        """
        self._objects = objects
        self._catalogue = catalogue
        self._tokens = tokens
        self._authorizer = authorizer
        self._storages = storages
        self._select = select

    async def answer(self, target: Target, request: Request) -> Response:
        """Answer a request that is not a GET.

        It waits only for admission: other writes happen at once. Raises Refusal.
        """
        now = self._objects.clock.now()
        submission = Submission(target.kind, target.user, now, query=target.query)
        target = replace(target, submission=submission)
        return await attempted(submission, partial(self._attempt, target, request))

    def _attempt(self, target: Target, request: Request) -> Response:
        answer = self._written(target, request)
        if after_request := self._storages.of(target.kind).after_request:
            after_request(target.kind, self._objects, self._catalogue)
        return answer

    def _written(self, target: Target, request: Request) -> Response:
        match request.method:
            case "POST":
                return self._post(target, request)
            case "GET":
                return self._connect(target, request)
            case "PUT" if target.name:
                return self._put(target, request)
            case "PATCH" if target.name:
                return self._patch(target, request)
            case "DELETE" if target.subresource:
                raise method_not_allowed()
            case "DELETE" if target.name:
                return self._delete(target, request)
            case "DELETE":
                return self._delete_collection(target, request)
        raise method_not_allowed()

    # POST

    def _post(self, target: Target, request: Request) -> Response:
        kind = target.kind
        if target.subresource:
            return self._connect(target, request)
        if target.name or "create" not in kind.verbs:
            raise method_not_allowed()
        if kind.namespaced and not target.namespace:
            raise method_not_allowed()
        content_type = header(request.headers, "content-type")
        body = decode_object(request.body or b"", content_type, kind.kind)
        obj, unknown = _checked(target, body)
        if not kind.is_stored:
            self._admit(target, obj)
        create = self._storages.of(kind).create
        if create and (answer := create(self._call(target), obj)) is not None:
            return json_response(201, answer)
        stored = self._objects.create(
            kind.stored,
            target.namespace,
            to_stored(kind, obj),
            dry_run=target.dry_run,
            managed=self._fields(target, request, "Update").created,
            user=target.user,
            submission=target.submission,
        )
        shown = in_version(kind, stored)
        return written(201, shown, unknown, target.field_validation)

    def _admit(
        self, target: Target, body: JSON, operation: Operation = Operation.CREATE
    ) -> JSON:
        """Return a posted body that is not stored, as changed by admission."""
        write = Write(operation, target.kind, target.namespace, target.name, body)
        write.subresource, write.submission = target.subresource, target.submission
        write.is_dry_run = target.dry_run
        self._objects.admission.mutate(write)
        self._objects.admission.validate(write)
        return write.obj or {}

    def _connect(self, target: Target, request: Request) -> Response:
        """Answer a POST to a subresource."""
        subresource = target.kind.subresource(target.subresource)
        connect = self._storages.of(target.kind).connect.get(target.subresource)
        if connection := connection_of(target):
            options = options_of(connection, request.query)
            self._admit(target, options, Operation.CONNECT)
        if subresource is None or connect is None:
            raise not_implemented(f"{target.kind.plural}/{target.subresource}")
        content_type = header(request.headers, "content-type")
        body = decode_connect_body(request.body, content_type)
        body = check_connect_body(body, subresource)
        body = self._admit(target, body)
        return json_response(201, connect(self._call(target), body))

    def _call(self, target: Target) -> Call:
        return Call(
            target.kind,
            target.namespace,
            target.name,
            target.dry_run,
            target.user,
            self._objects,
            self._tokens,
            self._authorizer,
        )

    # PUT and PATCH

    def _put(self, target: Target, request: Request) -> Response:
        if target.subresource == "scale":
            managed = self._managed(target, request)
            return self._scaled(target, decode_json(request.body or b"{}"), managed)
        _check_replaceable(target)
        content_type = header(request.headers, "content-type")
        wanted = target.kind.kind
        body = decode_object(request.body or b"", content_type, wanted)
        managed = self._managed(target, request)
        return self._updated(target, body, managed, uid_is_precondition=True)

    def _patch(self, target: Target, request: Request) -> Response:
        kind = target.kind
        content_type = header(request.headers, "content-type").partition(";")[0]
        check_patch_type(content_type, kind)
        if content_type == APPLY:
            fields = self._fields(target, request, "Apply")
            if target.subresource == "scale":
                scale = apply_scale(self._objects, target, request, fields)
                return json_response(200, scale)
            _check_replaceable(target)
            return apply_configuration(self._objects, target, request, fields)
        patch = decode_json(request.body or b"")
        stored = self._objects.find(kind, target.namespace, target.name)
        if target.subresource == "scale":
            current = scale_of(kind, stored)
            managed = self._managed(target, request)
            scale = patched(current, patch, content_type, kind)
            return self._scaled(target, scale, managed)
        _check_replaceable(target)
        shown = in_version(kind, stored)
        changed = patched(shown.obj, patch, content_type, kind)
        managed = self._managed(target, request)
        return self._updated(target, changed, managed, uid_is_precondition=False)

    def _managed(self, target: Target, request: Request) -> Managed:
        """Return the function that returns the managers of changed fields."""
        return self._fields(target, request, "Update").updated

    def _fields(self, target: Target, request: Request, operation: str) -> FieldManager:
        clock, catalogue = self._objects.clock, self._catalogue
        return field_manager(target, request, operation, clock, catalogue)

    def _updated(
        self,
        target: Target,
        body: JSON,
        managed: Managed,
        *,
        uid_is_precondition: bool,
    ) -> Response:
        kind = target.kind
        obj, unknown = _checked(target, body)
        if (body.get("metadata") or {}).get("managedFields") == []:
            obj["metadata"]["managedFields"] = []  # dropped as all empty lists
        stored = self._objects.update(
            kind.stored,
            target.namespace,
            target.name,
            to_stored(kind, obj),
            target.subresource,
            dry_run=target.dry_run,
            uid_is_precondition=uid_is_precondition,
            managed=managed,
            submission=target.submission,
        )
        shown = in_version(kind, stored)
        return written(200, shown, unknown, target.field_validation)

    def _scaled(self, target: Target, scale: Any, managed: Managed) -> Response:
        return json_response(200, scaled(self._objects, target, scale, managed))

    # DELETE

    def _delete(self, target: Target, request: Request) -> Response:
        kind = target.kind
        if "delete" not in kind.verbs:
            raise method_not_allowed()
        options = _deletion(target, request)
        obj, gone = self._objects.delete(
            kind.stored,
            target.namespace,
            target.name,
            options,
            dry_run=target.dry_run or options.dry_run,
            submission=target.submission,
        )
        warnings = kind.strategy.deletion_warnings(options)
        body = in_version(kind, Stored(obj, 0)).obj
        if gone and not kind.strategy.returns_deleted:
            body = _removed(kind, obj)
        return with_warnings(json_response(200, body), warnings)

    def _delete_collection(self, target: Target, request: Request) -> Response:
        kind, submission = target.kind, target.submission
        if "deletecollection" not in kind.verbs:
            raise method_not_allowed()
        options = _deletion(target, request)
        selection = parse_selection(kind, target.query)
        assert submission is not None  # noqa: S101 - each write has one
        items = submission.once("items", lambda: self._select(target, selection, None))
        self._delete_each(target, items, options)
        page = [stored for _, stored in items]
        collection = self._objects.storage.collection(kind.stored.resource)
        metadata = {"resourceVersion": str(collection.version)}
        answer = Response(200, JSON_HEADERS, encode_list(kind, page, metadata))
        return with_warnings(answer, kind.strategy.deletion_warnings(options))

    def _delete_each(
        self, target: Target, items: list[tuple[Key, Stored]], options: Deletion
    ) -> None:
        """Delete objects, except those that an earlier attempt has deleted."""
        submission = target.submission
        assert submission is not None  # noqa: S101 - each write has one
        deleted: set[Key] = submission.once("deleted", set)
        for key, _ in items:
            if key in deleted or not self._objects.has(target.kind.stored, *key):
                continue
            self._objects.delete(
                target.kind.stored,
                *key,
                options,
                dry_run=target.dry_run or options.dry_run,
                submission=submission,
                in_collection=True,
            )
            deleted.add(key)


def _removed(kind: Kind, obj: JSON) -> JSON:
    """Return the Status for a removed object."""
    details = {
        "name": obj["metadata"]["name"],
        **({"group": kind.group} if kind.group else {}),
        "kind": kind.plural,
        "uid": obj["metadata"]["uid"],
    }
    return success(details=details)


def _check_replaceable(target: Target) -> None:
    """Raise Refusal 501 for a subresource that cannot be written."""
    if target.subresource in _WHOLE_OBJECTS:
        return
    subresource = target.kind.subresource(target.subresource)
    if subresource is None or subresource.replace is None:
        raise not_implemented(f"{target.kind.plural}/{target.subresource}")


def _checked(target: Target, body: JSON) -> tuple[JSON, list[str]]:
    """Return the object of a body and its unknown fields; raises Refusal."""
    kind = target.kind
    obj, unknown = check_object(body, kind, kind.version)
    if unknown and target.field_validation == "Strict":
        raise strict_error(kind, kind.version, unknown)
    return obj, unknown


def _deletion(target: Target, request: Request) -> Deletion:
    content_type = header(request.headers, "content-type")
    options = decode_delete_options(request.body, content_type) or {}
    if target.submission:
        target.submission.body_options = options
    return Deletion.parse(options, dict(target.query))
