"""POST and DELETE; each request to write is attempted until admission is done."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.storage import Key, Stored

from . import negotiation, responses
from .admission import Operation, Submission, Write
from .field_manager import field_manager
from .kind import (
    Catalogue,
    Kind,
    Pending,
    Selection,
    in_version,
    parse_selection,
    to_stored,
)
from .objects import CUSTOM_RESOURCES, GENERIC, Call, Objects, RESTStorage
from .request_info import (
    Target,
    connection_of,
    not_served,
    options_of,
    parse_deletion,
)
from .security import Authorizer, Tokens
from .strategy import Deletion
from .updating import WHOLE_OBJECTS, Updater

# DELETE: one object, or the selected objects of a collection.

Select = Callable[[Target, Selection], list[tuple[Key, Stored]]]


class Deleter:
    """Answers requests that delete objects."""

    def __init__(self, objects: Objects, select: Select) -> None:
        self._objects = objects
        self._select = select

    def delete(self, target: Target, request: Request) -> Response:
        """Delete one object; raises Refusal."""
        kind = target.kind
        if "delete" not in kind.verbs:
            raise statuses.method_not_allowed()
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
        return responses.with_warnings(responses.json_response(200, body), warnings)

    def delete_collection(self, target: Target, request: Request) -> Response:
        """Delete the selected objects; raises Refusal."""
        kind, submission = target.kind, target.submission
        if "deletecollection" not in kind.verbs:
            raise statuses.method_not_allowed()
        options = _deletion(target, request)
        selection = parse_selection(kind, target.query)
        assert submission is not None  # noqa: S101 - each write has one
        items = submission.once("items", lambda: self._select(target, selection))
        deleted: set[Key] = submission.once("deleted", set)
        for key, _ in items:
            if key in deleted or not self._objects.has(kind.stored, *key):
                continue
            self._objects.delete(
                kind.stored,
                *key,
                options,
                dry_run=target.dry_run or options.dry_run,
                submission=submission,
                in_collection=True,
            )
            deleted.add(key)
        page = [stored for _, stored in items]
        collection = self._objects.storage.collection(kind.stored.resource)
        metadata = {"resourceVersion": str(collection.version)}
        answer = Response(
            200, responses.JSON_HEADERS, responses.encode_list(kind, page, metadata)
        )
        return responses.with_warnings(answer, kind.strategy.deletion_warnings(options))


def _removed(kind: Kind, obj: JSON) -> JSON:
    details = {
        "name": obj["metadata"]["name"],
        **({"group": kind.group} if kind.group else {}),
        "kind": kind.plural,
        "uid": obj["metadata"]["uid"],
    }
    return statuses.success(details=details)


def _deletion(target: Target, request: Request) -> Deletion:
    """Return the options of a DELETE, in its body and its query; raises Refusal."""
    body = negotiation.delete_options(request)
    if target.submission:
        target.submission.body_options = body
    return parse_deletion(body, target.query)


# POST; each request to write is attempted until admission is done.


class Writer:
    """Answers requests that change objects."""

    def __init__(
        self,
        objects: Objects,
        catalogue: Catalogue,
        tokens: Tokens,
        authorizer: Authorizer,
        storages: Mapping[str, RESTStorage],
        deleter: Deleter,
    ) -> None:
        self._objects = objects
        self._catalogue = catalogue
        self._tokens = tokens
        self._authorizer = authorizer
        self._storages = storages
        self._deleter = deleter
        self._updater = Updater(objects, catalogue)

    async def answer(self, target: Target, request: Request) -> Response:
        """Answer a request that is not a GET.

        It waits only for admission, and for a large body in YAML or protobuf: other
        writes happen at once. Raises Refusal.
        """
        request = await negotiation.with_read_yaml(request)
        sends_object = request.method in ("POST", "PUT") and not target.kind.is_custom
        if sends_object and target.subresource in WHOLE_OBJECTS:
            kind, version = target.kind.kind, target.kind.api_version
            request = await negotiation.with_read_protobuf(request, kind, version)
        target, submission = self._submitted(target)
        return await _attempted(submission, partial(self._attempt, target, request))

    async def admit_connection(self, target: Target, request: Request) -> Response:
        """Let admission see a connection that another part of the cluster answers.

        The answer is empty, or that of a refusal. Raises Refusal.
        """
        target, submission = self._submitted(target)

        def attempt() -> Response:
            self._admit_connection(target, request)
            return Response(200, {})

        return await _attempted(submission, attempt)

    def _submitted(self, target: Target) -> tuple[Target, Submission]:
        now = self._objects.clock.now()
        submission = Submission(target.kind, target.user, now, query=target.query)
        submission.kind = target.kind.within(submission)
        return replace(target, kind=submission.kind, submission=submission), submission

    def _admit_connection(self, target: Target, request: Request) -> None:
        if connection := connection_of(target):
            options = options_of(connection, request.query)
            self._admit(target, options, Operation.CONNECT)

    def _storage_of(self, kind: Kind) -> RESTStorage:
        resource = CUSTOM_RESOURCES if kind.is_custom else kind.resource
        return self._storages.get(resource, GENERIC)

    def _attempt(self, target: Target, request: Request) -> Response:
        answer = self._written(target, request)
        if after_request := self._storage_of(target.kind).after_request:
            after_request(target.kind, self._objects, self._catalogue)
        return answer

    def _written(self, target: Target, request: Request) -> Response:
        match request.method:
            case "POST":
                return self._post(target, request)
            case "GET":
                return self._connect(target, request)
            case "PUT" if target.name:
                return self._updater.put(target, request)
            case "PATCH" if target.name:
                return self._updater.patch(target, request)
            case "DELETE" if target.subresource:
                raise statuses.method_not_allowed()
            case "DELETE" if target.name:
                return self._deleter.delete(target, request)
            case "DELETE":
                return self._deleter.delete_collection(target, request)
        raise statuses.method_not_allowed()

    # POST

    def _post(self, target: Target, request: Request) -> Response:
        kind = target.kind
        if target.subresource:
            return self._connect(target, request)
        if target.name or "create" not in kind.verbs:
            raise statuses.method_not_allowed()
        if kind.namespaced and not target.namespace:
            raise statuses.method_not_allowed()
        given = negotiation.decoded_body(target, request)
        obj, problems = negotiation.checked_body(target, *given)
        if not kind.is_stored:
            self._admit(target, obj)
        create = self._storage_of(kind).create
        if create and (answer := create(self._call(target), obj)) is not None:
            return responses.json_response(201, answer)
        stored = self._objects.create(
            kind.stored,
            target.namespace,
            to_stored(kind, obj),
            dry_run=target.dry_run,
            managed=field_manager(
                target, request, "Update", self._objects.clock, self._catalogue
            ).created,
            user=target.user,
            submission=target.submission,
        )
        shown = in_version(kind, stored)
        return responses.written(201, shown, problems, target.field_validation)

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
        subresource = target.kind.subresource(target.subresource)
        connect = self._storage_of(target.kind).connect.get(target.subresource)
        self._admit_connection(target, request)
        if subresource is None or connect is None:
            raise not_served(target, "create")
        body = negotiation.body_of(
            request, subresource.kind, subresource.api_version, b"{}"
        )
        body = negotiation.check_connect_body(body, subresource)
        body = self._admit(target, body)
        return responses.json_response(201, connect(self._call(target), body))

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


_LONGEST: Final = 34
"""Seconds that a request to write may take (requestTimeoutUpperBound)."""

_TOO_LATE: Final = (
    "Timeout: request did not complete within requested timeout - context deadline "
    "exceeded"
)


async def _attempted(
    submission: Submission, attempt: Callable[[], Response]
) -> Response:
    """Return the answer of the first attempt that admission does not delay.

    The answer has the warnings of admission, also if it is a refusal. A request that
    takes longer than 34 s gets a 504 (endpoints/handlers). Raises Refusal.
    """
    try:
        answer = await _answer(submission, attempt)
    except statuses.Refusal as refusal:
        if not submission.warnings:
            raise
        answer = responses.refused(refusal)
    return responses.with_warnings(answer, submission.warnings)


async def _answer(submission: Submission, attempt: Callable[[], Response]) -> Response:
    try:
        return attempt()
    except Pending as pending:
        waiting = pending
    try:
        async with asyncio.timeout(_LONGEST):
            while True:
                await waiting.wait()
                submission.warnings.clear()
                try:
                    return attempt()
                except Pending as pending:
                    waiting = pending
    except TimeoutError:
        raise statuses.Refusal(504, "Timeout", _TOO_LATE, {}) from None
