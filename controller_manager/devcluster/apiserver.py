"""The API server's core: a function from request to answer.

Nothing here knows HTTP connections; `http_face` does. Bodies are bytes, so
that what a client sees is the same over HTTP and in memory.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import format_datetime
from typing import Any, Final

import msgspec

from controller_manager.client.inmemory import StreamingResponse
from controller_manager.client.transport import Request, Response
from controller_manager.clock import Clock
from controller_manager.devcluster import discovery, protobuf, reviews
from controller_manager.devcluster.auth import (
    ANONYMOUS,
    AUTHENTICATED,
    Tokens,
    User,
    forbid_anonymous,
    impersonated,
)
from controller_manager.devcluster.bootstrap import bootstrap_objects
from controller_manager.devcluster.custom import (
    DEFINITIONS,
    CustomResources,
    in_version,
)
from controller_manager.devcluster.kinds import Catalogue, Kind
from controller_manager.devcluster.negotiation import (
    Form,
    check_object,
    decode_continue,
    decode_delete_options,
    decode_json,
    decode_object,
    encode_continue,
    header,
    parse_version,
    strict_error,
    wanted_form,
)
from controller_manager.devcluster.objects import (
    MODIFIED,
    Deletion,
    Objects,
    asks_for_dry_run,
)
from controller_manager.devcluster.openapi import OpenAPI
from controller_manager.devcluster.patch import (
    PatchError,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from controller_manager.devcluster.rbac import Attempt, Authorizer
from controller_manager.devcluster.selection import Selection, parse_selection
from controller_manager.devcluster.statuses import (
    Refusal,
    bad_request,
    conflict,
    expired,
    forbidden_field,
    invalid_object,
    method_not_allowed,
    no_such_resource,
    not_implemented,
    success,
    too_large_version,
    unsupported_media_type,
)
from controller_manager.devcluster.storage import Key, Storage, Stored, TooOldError
from controller_manager.devcluster.tables import column_definitions, row
from controller_manager.devcluster.validation import validate_scale
from controller_manager.devcluster.watching import (
    WatchRequest,
    WatchResponse,
    error_event,
)
from controller_manager.observability.logs import Logger, silent_logger
from controller_manager.registry import registry

JSON = dict[str, Any]

_JSON_HEADERS: Final = {"content-type": "application/json"}
_TEXT_HEADERS: Final = {"content-type": "text/plain; charset=utf-8"}
_PROBES: Final = frozenset(("/healthz", "/livez", "/readyz"))
_VERSION_PATHS: Final = frozenset(("/version", "/version/"))
"""A real API server takes a slash at the end of these, and at the end of the paths
of groups and resources. The paths of probes and of OpenAPI are exact."""
_TRUE: Final = frozenset(("1", "true", "True"))
_DEFAULT_WATCH: Final = 1800
_VERSION_PATIENCE: Final = 3.0
"""Seconds to wait for a resourceVersion that does not exist yet."""

_SUBRESOURCES_OF_NAMESPACES: Final = frozenset(("status", "finalize"))
_UPDATED_SUBRESOURCES: Final = frozenset(("", "status", "finalize"))


@dataclass(frozen=True, slots=True)
class Target:
    """What a path and its query are about."""

    kind: Kind
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, str]
    user: User

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be stored; raises Refusal for another value."""
        return asks_for_dry_run(self.query.get("dryRun"))


class APIServer:
    """Answers requests of the Kubernetes API from memory."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: random.Random,
        users: Mapping[str, User],
        history: int | None = None,
        rbac: bool = False,
        logger: Logger | None = None,
    ) -> None:
        """Take time, randomness, and the users by their bearer tokens.

        `history` is how many changes of a resource watches may go back. With
        `rbac` there are the bootstrap roles, and nobody may do more than the
        roles allow.
        """
        self.storage = Storage(history) if history is not None else Storage()
        self.catalogue = Catalogue()
        self.tokens = Tokens(users, rng, clock, self._account_uid)
        self.authorizer = Authorizer(self.storage, enforced=rbac)
        self.objects = Objects(self.storage, clock, rng)
        self._custom = CustomResources(self.catalogue, self.objects, clock)
        self.address = "127.0.0.1:0"
        self._clock = clock
        self._logger = logger or silent_logger()
        self._openapi = OpenAPI(self.catalogue)
        if rbac:
            self._create_bootstrap_roles()

    def _create_bootstrap_roles(self) -> None:
        for obj in bootstrap_objects(registry()):
            kind = self.catalogue.of(obj["apiVersion"], obj["kind"])
            assert kind is not None  # noqa: S101 - a row of the catalogue
            self.objects.create(kind, "", obj)

    def _account_uid(self, namespace: str, name: str) -> str | None:
        stored = self.storage.collection("serviceaccounts").get((namespace, name))
        return str(stored.obj["metadata"]["uid"]) if stored is not None else None

    async def handle(self, request: Request) -> Response | StreamingResponse:
        """Answer one request; what nobody thought of becomes a 500."""
        return await self.handle_as(None, request)

    async def handle_as(
        self, certified: User | None, request: Request
    ) -> Response | StreamingResponse:
        """Answer one request of the user of a client certificate, if any."""
        try:
            answer = await self._answer(request, certified)
        except Exception as error:
            self._logger.error("Request failed", path=request.path, exc_info=error)
            refusal = Refusal(500, "InternalError", f"Internal error occurred: {error}")
            body = msgspec.json.encode(refusal.status())
            answer = Response(refusal.code, _JSON_HEADERS, body)
        if not isinstance(answer, Response):
            return answer
        date = format_datetime(self._clock.now(), usegmt=True)
        return replace(answer, headers={**answer.headers, "date": date})

    async def _answer(
        self, request: Request, certified: User | None
    ) -> Response | StreamingResponse:
        try:
            user = self._user(request, certified)
            if request.path in _PROBES:
                return Response(200, _TEXT_HEADERS, b"ok")
            if request.path in _VERSION_PATHS:
                return _json(200, discovery.VERSION)
            if user is ANONYMOUS:
                raise forbid_anonymous(request.path)
            return await self._route(request, user)
        except Refusal as refusal:
            headers = dict(_JSON_HEADERS)
            if refusal.retry_after is not None:
                headers["retry-after"] = str(refusal.retry_after)
            body = msgspec.json.encode(refusal.status())
            return Response(refusal.code, headers, body)

    def _user(self, request: Request, certified: User | None) -> User:
        """Return who asks: a client certificate counts before a token."""
        user = certified or self.tokens.authenticate(
            header(request.headers, "authorization")
        )
        other = impersonated(request.headers)
        if other is None:
            return user
        wanted = [("users", other.name)]
        wanted += [("groups", each) for each in other.groups if each != AUTHENTICATED]
        if other.uid:
            wanted.append(("uids", other.uid))
        for resource, name in wanted:
            group = "authentication.k8s.io" if resource == "uids" else ""
            attempt = Attempt("impersonate", group=group, resource=resource, name=name)
            self.authorizer.check(user, attempt)
        return other

    # Routing

    async def _route(
        self, request: Request, user: User
    ) -> Response | StreamingResponse:
        parts = [part for part in request.path.split("/") if part]
        if len(parts) < 3 or parts[0] == "openapi":
            attempt = Attempt(request.method.lower(), path=request.path)
            self.authorizer.check(user, attempt)
        match parts:
            case ["api"] | ["apis"] if _wants_aggregated(request):
                return Response(
                    200,
                    {"content-type": discovery.AGGREGATED},
                    msgspec.json.encode(
                        discovery.aggregated(self.catalogue, core=parts == ["api"])
                    ),
                )
            case ["api"]:
                return _json(200, discovery.api_versions(self.address))
            case ["apis"]:
                return _json(200, discovery.api_groups(self.catalogue))
            case ["apis", group]:
                return _json_or_404(discovery.api_group(self.catalogue, group))
            case ["openapi", *rest] if not request.path.endswith("/"):
                return self._openapi.answer(rest, header(request.headers, "accept"))
            case ["api", version, *rest]:
                return await self._resource("", version, rest, request, user)
            case ["apis", group, version, *rest]:
                return await self._resource(group, version, rest, request, user)
        return Response(404, _TEXT_HEADERS, b"404 page not found\n")

    async def _resource(
        self, group: str, version: str, rest: list[str], request: Request, user: User
    ) -> Response | StreamingResponse:
        if self.catalogue.kinds(group, version) is None:
            return Response(404, _TEXT_HEADERS, b"404 page not found\n")
        if not rest:
            resources = discovery.api_resources(self.catalogue, group, version)
            return _json_or_404(resources)
        target = self._target(group, version, rest, dict(request.query), user)
        self.authorizer.check(user, _attempt_on(target, request.method))
        if target.subresource and not target.kind.subresource(target.subresource):
            raise no_such_resource()
        if request.method not in ("GET", "HEAD"):
            return self._write(target, request)
        match request.method:
            case "GET" if target.subresource:
                return self._get_subresource(target, request)
            case "GET" if target.name:
                return self._get(target, request)
            case "GET":
                return await self._list_or_watch(target, request)
        raise method_not_allowed()

    def _write(self, target: Target, request: Request) -> Response:
        answer = self._written(target, request)
        if target.kind.is_custom or target.kind.resource == DEFINITIONS:
            self._custom.refresh()
        return answer

    def _written(self, target: Target, request: Request) -> Response:
        match request.method:
            case "POST":
                return self._post(target, request)
            case "PUT":
                return self._put(target, request)
            case "PATCH":
                return self._patch(target, request)
            case "DELETE" if target.subresource:
                raise method_not_allowed()
            case "DELETE" if target.name:
                return self._delete(target, request)
            case "DELETE":
                return self._delete_collection(target, request)
        raise method_not_allowed()

    def _target(
        self,
        group: str,
        version: str,
        rest: list[str],
        query: dict[str, str],
        user: User,
    ) -> Target:
        namespace = ""
        of_namespace = len(rest) == 3 and rest[2] in _SUBRESOURCES_OF_NAMESPACES
        if rest[0] == "namespaces" and len(rest) > 2 and not of_namespace:
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = [*rest, "", "", ""][:3]
        kind = self.catalogue.find(group, version, plural)
        if kind is None or len(rest) > 3:
            raise no_such_resource()
        if kind.namespaced and not namespace and name:
            raise no_such_resource()
        return Target(kind, namespace, name, subresource, query, user)

    # Reading

    def _get(self, target: Target, request: Request) -> Response:
        form = wanted_form(header(request.headers, "accept"))
        stored = self.objects.find(target.kind, target.namespace, target.name)
        return self._shown(target, in_version(target.kind, stored), form)

    def _shown(self, target: Target, stored: Stored, form: Form) -> Response:
        match form:
            case Form.METADATA:
                return _json(200, _partial(stored.obj))
            case Form.TABLE:
                version = str(stored.obj["metadata"]["resourceVersion"])
                return _json(
                    200, self._table(target, [stored], {"resourceVersion": version})
                )
        return Response(200, _JSON_HEADERS, stored.encoded)

    def _table(self, target: Target, items: list[Stored], metadata: JSON) -> JSON:
        include = target.query.get("includeObject", "Metadata")
        now = self._clock.now()
        rows = []
        for stored in items:
            match include:
                case "None":
                    shown = None
                case "Object":
                    shown = stored.obj
                case _:
                    shown = _partial(stored.obj)
            rows.append(row(target.kind, stored.obj, now, shown))
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": column_definitions(target.kind),
            "rows": rows,
        }

    def _get_subresource(self, target: Target, request: Request) -> Response:
        stored = self.objects.find(target.kind, target.namespace, target.name)
        match target.subresource:
            case "scale":
                return _json(200, self.objects.scale_of(target.kind, stored))
            case "status":
                form = wanted_form(header(request.headers, "accept"))
                return self._shown(target, stored, form)
        raise not_implemented(f"{target.kind.plural}/{target.subresource}")

    async def _list_or_watch(
        self, target: Target, request: Request
    ) -> Response | StreamingResponse:
        if "list" not in target.kind.verbs:
            raise method_not_allowed()
        selection = parse_selection(target.kind, target.query)
        form = wanted_form(header(request.headers, "accept"))
        _check_list_options(target.query)
        if target.query.get("watch") in _TRUE:
            return self._watch(target, selection, form)
        return await self._list(target, selection, form)

    async def _list(self, target: Target, selection: Selection, form: Form) -> Response:
        query = target.query
        limit = _whole_number(query, "limit", 0)
        start, version = "", self.storage.version
        exact: int | None = None
        if token := query.get("continue"):
            exact, start = decode_continue(token)
            version = exact
        elif wanted := query.get("resourceVersion", ""):
            number = parse_version(wanted)
            await self._reach(number)
            version = self.storage.version
            if query.get("resourceVersionMatch") == "Exact":
                exact = version = number
        items = self._select(target, selection, exact)
        remaining = [stored for key, stored in items if _path(key) > start]
        page = remaining[:limit] if limit else remaining
        metadata: JSON = {"resourceVersion": str(version)}
        if len(page) < len(remaining):
            last = page[-1].obj["metadata"]
            key = (last.get("namespace", ""), last["name"])
            metadata["continue"] = encode_continue(version, _path(key))
            if selection.is_everything:
                metadata["remainingItemCount"] = len(remaining) - len(page)
        return self._list_shown(target, page, metadata, form)

    def _select(
        self, target: Target, selection: Selection, version: int | None
    ) -> list[tuple[Key, Stored]]:
        collection = self.storage.collection(target.kind.resource)
        try:
            snapshot = collection.snapshot(version)
        except TooOldError:
            message = (
                "The provided continue parameter is too old to display a consistent "
                "list result. You can start a new list without the continue parameter."
            )
            raise expired(message) from None
        return sorted(
            (
                (key, in_version(target.kind, stored))
                for key, stored in snapshot.items()
                if (not target.namespace or key[0] == target.namespace)
                and selection.matches(stored.obj)
            ),
            key=lambda entry: entry[0],
        )

    def _list_shown(
        self, target: Target, page: list[Stored], metadata: JSON, form: Form
    ) -> Response:
        match form:
            case Form.TABLE:
                return _json(200, self._table(target, page, metadata))
            case Form.METADATA:
                return _json(
                    200,
                    {
                        "kind": "PartialObjectMetadataList",
                        "apiVersion": "meta.k8s.io/v1",
                        "metadata": metadata,
                        "items": [_partial(stored.obj) for stored in page],
                    },
                )
        return Response(200, _JSON_HEADERS, _encode_list(target.kind, page, metadata))

    async def _reach(self, version: int) -> None:
        """Wait a little for a version that is yet to come; else refuse."""
        deadline = self._clock.monotonic() + _VERSION_PATIENCE
        while version > self.storage.version:
            if self._clock.monotonic() >= deadline:
                raise too_large_version(version, self.storage.version)
            await asyncio.sleep(0.1)

    def _watch(
        self, target: Target, selection: Selection, form: Form
    ) -> StreamingResponse | Response:
        query = target.query
        wanted = query.get("resourceVersion", "")
        number = parse_version(wanted) if wanted else 0
        from_now = number == 0 or query.get("sendInitialEvents") in _TRUE
        collection = self.storage.collection(target.kind.resource)
        # Without a version, or with 0, what is there comes first.
        initial = self._select(target, selection, None) if from_now else []
        try:
            watcher = collection.watch(self.storage.version if from_now else number)
        except TooOldError as error:
            body = error_event(expired(str(error)).status())
            return Response(200, _JSON_HEADERS, body)
        timeout = float(_whole_number(query, "timeoutSeconds", _DEFAULT_WATCH))
        return WatchResponse(
            WatchRequest(
                kind=target.kind,
                namespace=target.namespace,
                selection=selection,
                timeout=timeout,
                bookmarks=query.get("allowWatchBookmarks") in _TRUE,
                encode=lambda stored: self._event_object(target, stored, form),
            ),
            watcher,
            [stored for _, stored in initial],
            self.storage.version,
            ends_initial=query.get("sendInitialEvents") in _TRUE,
            version=lambda: self.storage.version,
            clock=self._clock,
        )

    def _event_object(self, target: Target, stored: Stored, form: Form) -> bytes:
        stored = in_version(target.kind, stored)
        match form:
            case Form.METADATA:
                return msgspec.json.encode(_partial(stored.obj))
            case Form.TABLE:
                version = str(stored.obj["metadata"]["resourceVersion"])
                table = self._table(target, [stored], {"resourceVersion": version})
                return msgspec.json.encode(table)
        return stored.encoded

    # Writing

    def _decoded(self, target: Target, request: Request) -> tuple[JSON, list[str]]:
        """Return the object in a body and its unknown fields."""
        content_type = header(request.headers, "content-type")
        obj = decode_object(request.body or b"", content_type, target.kind)
        checked, unknown = check_object(obj, target.kind, target.kind.version)
        if unknown and target.query.get("fieldValidation") == "Strict":
            raise strict_error(target.kind, target.kind.version, unknown)
        return checked, unknown

    def _post(self, target: Target, request: Request) -> Response:
        if target.subresource or target.kind.resource == "bindings":
            return self._connect(target, request)
        if target.name or "create" not in target.kind.verbs:
            raise method_not_allowed()
        if target.kind.namespaced and not target.namespace:
            raise method_not_allowed()
        obj, unknown = self._decoded(target, request)
        answer = reviews.review(
            target.kind, obj, self.tokens, self.authorizer, target.user
        )
        if answer is not None:
            return _json(201, answer)
        stored = self.objects.create(
            target.kind, target.namespace, obj, dry_run=target.dry_run
        )
        return _stored(201, stored, unknown, target)

    def _connect(self, target: Target, request: Request) -> Response:
        """Answer a POST to a subresource."""
        body = _connect_body(request)
        name = target.name or (body.get("metadata") or {}).get("name", "")
        pods = self.catalogue.find("", "v1", "pods")
        match target.subresource or target.kind.plural:
            case "binding" | "bindings" if pods is not None:
                node = (body.get("target") or {}).get("name", "")
                self.objects.bind(pods, target.namespace, name, node)
                return _json(201, success(201))
            case "eviction":
                given = body.get("deleteOptions") or {}
                options = Deletion.parse(given, {})
                self.objects.delete(
                    target.kind,
                    target.namespace,
                    name,
                    options,
                    dry_run=target.dry_run or options.dry_run,
                )
                return _json(201, success(201))
            case "token":
                account = self.objects.find(target.kind, target.namespace, name)
                return _json(
                    201,
                    reviews.token_request(body, account.obj, self.tokens, self._clock),
                )
        raise not_implemented(f"{target.kind.plural}/{target.subresource}")

    def _put(self, target: Target, request: Request) -> Response:
        if not target.name:
            raise method_not_allowed()
        if target.subresource == "scale":
            scale = decode_json(request.body or b"{}")
            return self._scaled(target, scale)
        if target.subresource not in _UPDATED_SUBRESOURCES:
            raise not_implemented(f"{target.kind.plural}/{target.subresource}")
        obj, unknown = self._decoded(target, request)
        stored = self.objects.update(
            target.kind,
            target.namespace,
            target.name,
            obj,
            target.subresource,
            dry_run=target.dry_run,
        )
        return _stored(200, stored, unknown, target)

    def _patch(self, target: Target, request: Request) -> Response:
        if not target.name:
            raise method_not_allowed()
        content_type = header(request.headers, "content-type").partition(";")[0]
        _check_patch_type(content_type, target.kind)
        patch = decode_json(request.body or b"")
        stored = self.objects.find(target.kind, target.namespace, target.name)
        if target.subresource == "scale":
            current = self.objects.scale_of(target.kind, stored)
            changed = _patched(current, patch, content_type, target.kind)
            return self._scaled(target, changed)
        if target.subresource not in _UPDATED_SUBRESOURCES:
            raise not_implemented(f"{target.kind.plural}/{target.subresource}")
        shown = in_version(target.kind, stored)
        changed = _patched(shown.obj, patch, content_type, target.kind)
        obj, unknown = check_object(changed, target.kind, target.kind.version)
        if unknown and target.query.get("fieldValidation") == "Strict":
            raise strict_error(target.kind, target.kind.version, unknown)
        result = self.objects.update(
            target.kind,
            target.namespace,
            target.name,
            obj,
            target.subresource,
            dry_run=target.dry_run,
            uid_is_precondition=False,
        )
        return _stored(200, result, unknown, target)

    def _scaled(self, target: Target, scale: Any) -> Response:
        """Give the object the size that a Scale asks for."""
        kind, name = target.kind, target.name
        stored = self.objects.find(kind, target.namespace, name)
        metadata = scale.get("metadata") if isinstance(scale, dict) else None
        spec = scale.get("spec", {}) if isinstance(scale, dict) else None
        if not isinstance(metadata, dict) or not isinstance(spec, dict):
            raise bad_request("a Scale has metadata and a spec, both objects")
        given = metadata.get("resourceVersion")
        current = stored.obj["metadata"]["resourceVersion"]
        if given and given != current:
            raise conflict(kind.group, kind.plural, name, MODIFIED)
        replicas = spec.get("replicas", 0)
        if type(replicas) is not int or abs(replicas) >= 2**31:
            raise bad_request("spec.replicas must be a whole number of 32 bits")
        if causes := validate_scale(replicas):
            raise invalid_object("autoscaling", "Scale", name, causes)
        resized = {**stored.obj["spec"], "replicas": replicas}
        result = self.objects.update(
            kind,
            target.namespace,
            name,
            {**stored.obj, "spec": resized},
            dry_run=target.dry_run,
        )
        return _json(200, self.objects.scale_of(kind, result))

    # Deleting

    def _deletion(self, target: Target, request: Request) -> Deletion:
        content_type = header(request.headers, "content-type")
        options = decode_delete_options(request.body, content_type)
        return Deletion.parse(options or {}, dict(target.query))

    def _delete(self, target: Target, request: Request) -> Response:
        kind = target.kind
        if "delete" not in kind.verbs:
            raise method_not_allowed()
        options = self._deletion(target, request)
        dry_run = target.dry_run or options.dry_run
        obj, gone = self.objects.delete(
            kind, target.namespace, target.name, options, dry_run=dry_run
        )
        if not gone or kind.returns_deleted:
            return _json(200, obj)
        details = {
            "name": target.name,
            **({"group": kind.group} if kind.group else {}),
            "kind": kind.plural,
            "uid": obj["metadata"]["uid"],
        }
        return _json(200, success(details=details))

    def _delete_collection(self, target: Target, request: Request) -> Response:
        if "deletecollection" not in target.kind.verbs:
            raise method_not_allowed()
        options = self._deletion(target, request)
        selection = parse_selection(target.kind, target.query)
        items = self._select(target, selection, None)
        for (namespace, name), _ in items:
            self.objects.delete(
                target.kind,
                namespace,
                name,
                options,
                dry_run=target.dry_run or options.dry_run,
            )
        page = [stored for _, stored in items]
        metadata = {"resourceVersion": str(self.storage.version)}
        return Response(200, _JSON_HEADERS, _encode_list(target.kind, page, metadata))


_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def _attempt_on(target: Target, method: str) -> Attempt:
    """Return what a request is, as roles speak of it."""
    if method in ("GET", "HEAD"):
        verb = "get" if target.name else "list"
        if target.query.get("watch") in _TRUE:
            verb = "watch"
    elif method == "DELETE":
        verb = "delete" if target.name else "deletecollection"
    else:
        verb = _VERBS.get(method, method.lower())
    namespace = target.namespace
    if target.kind.plural == "namespaces" and not target.kind.group:
        namespace = target.name
    return Attempt(
        verb,
        group=target.kind.group,
        resource=target.kind.plural,
        subresource=target.subresource,
        namespace=namespace,
        name=target.name,
    )


def _json(status: int, body: JSON) -> Response:
    return Response(status, _JSON_HEADERS, msgspec.json.encode(body))


def _json_or_404(body: JSON | None) -> Response:
    if body is None:
        return Response(404, _TEXT_HEADERS, b"404 page not found\n")
    return _json(200, body)


def _stored(
    status: int, stored: Stored, unknown: list[str], target: Target
) -> Response:
    headers = dict(_JSON_HEADERS)
    if unknown and target.query.get("fieldValidation", "Warn") == "Warn":
        headers["warning"] = ", ".join(
            f'299 - "unknown field \\"{name}\\""' for name in unknown
        )
    return Response(status, headers, stored.encoded)


def _partial(obj: JSON) -> JSON:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


def _path(key: Key) -> str:
    return "/".join(key)


def _encode_list(kind: Kind, page: list[Stored], metadata: JSON) -> bytes:
    # Items of a list carry no kind and apiVersion; those two come first in
    # what is stored, so they can be cut off the encoded object.
    prefix = len(
        b'"kind":"%s","apiVersion":"%s",'
        % (kind.kind.encode(), kind.api_version.encode())
    )
    items = b",".join(b"{" + stored.encoded[prefix + 1 :] for stored in page)
    head = msgspec.json.encode(
        {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": metadata,
        }
    )
    return head[:-1] + b',"items":[' + items + b"]}"


def _whole_number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name) or str(default)
    if not text.isdecimal():
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number')
    return int(text)


def _check_list_options(query: Mapping[str, str]) -> None:
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion")
    watching = query.get("watch") in _TRUE
    detail = ""
    if "sendInitialEvents" in query and match != "NotOlderThan":
        detail = (
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    elif match == "Exact" and version == "0":
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    elif match and not watching and not version:
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    if detail:
        cause = forbidden_field("resourceVersionMatch", detail)
        raise invalid_object("meta.k8s.io", "ListOptions", "", [cause])


def _connect_body(request: Request) -> JSON:
    if header(request.headers, "content-type") == protobuf.MEDIA_TYPE:
        try:
            return protobuf.decode_protobuf(request.body or b"")
        except (protobuf.ProtobufError, UnicodeDecodeError) as error:
            raise unsupported_media_type(f"protobuf: {error}") from None
    body = decode_json(request.body or b"{}")
    if not isinstance(body, dict):
        raise bad_request("the body must be an object")
    return body


def _wants_aggregated(request: Request) -> bool:
    return discovery.AGGREGATED in header(request.headers, "accept")


_PATCH_TYPES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


def _check_patch_type(content_type: str, kind: Kind) -> None:
    if content_type in ("application/apply-patch+yaml", "application/apply-patch+cbor"):
        message = (
            "server-side apply is not supported by the development cluster; use "
            "client-side apply, or a merge or strategic merge patch"
        )
        raise unsupported_media_type(message, {})
    known = _PATCH_TYPES[:-1] if kind.is_custom else _PATCH_TYPES
    if content_type not in known:
        raise unsupported_media_type("415: Unsupported Media Type", {})


def _patched(obj: JSON, patch: Any, content_type: str, kind: Kind) -> JSON:
    try:
        match content_type:
            case "application/json-patch+json":
                result = json_patch(obj, patch)
            case "application/merge-patch+json":
                result = merge_patch(obj, patch)
            case _:
                result = strategic_merge_patch(obj, patch)
    except PatchError:
        message = "the server rejected our request due to an error in our request"
        raise Refusal(422, "Invalid", message, {}) from None
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        message = f"a patch must leave a {kind.kind} behind"
        raise bad_request(message)
    return result
