"""DELETE: one object, or the selected objects of a collection."""

from collections.abc import Callable

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.scheme.statuses import method_not_allowed, success
from controller_manager.devcluster.server.http.object_bodies import delete_options
from controller_manager.devcluster.server.http.request_info import Target
from controller_manager.devcluster.server.http.responses import (
    JSON_HEADERS,
    encode_list,
    json_response,
    with_warnings,
)
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.rest.deletion import Deletion
from controller_manager.devcluster.server.rest.kind import Kind, in_version
from controller_manager.devcluster.server.rest.selection import (
    Selection,
    parse_selection,
)
from controller_manager.devcluster.server.storage.storage import Key, Stored

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

    def delete_collection(self, target: Target, request: Request) -> Response:
        """Delete the selected objects; raises Refusal."""
        kind, submission = target.kind, target.submission
        if "deletecollection" not in kind.verbs:
            raise method_not_allowed()
        options = _deletion(target, request)
        selection = parse_selection(kind, target.query)
        assert submission is not None  # noqa: S101 - each write has one
        items = submission.once("items", lambda: self._select(target, selection))
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


def _deletion(target: Target, request: Request) -> Deletion:
    options = delete_options(request)
    if target.submission:
        target.submission.body_options = options
    return Deletion.parse(options, dict(target.query))
