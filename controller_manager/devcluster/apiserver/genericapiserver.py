"""The API server's core: a function from request to answer."""

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from email.utils import format_datetime
from typing import Final, Protocol

from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import Clock
from controller_manager.devcluster.apiserver import discovery
from controller_manager.devcluster.apiserver.request_info import check_write_options
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.storage import Storage
from controller_manager.observability.logs import Logger, silent_logger

from . import responses
from .admission import Chain
from .discovery import PROBES, probe_answer
from .kind import Catalogue, Kind
from .negotiation import Form, accepted, header
from .objects import Objects, RESTStorage
from .openapi import OpenAPI
from .reading import Reader
from .request_info import (
    MEDIA_TYPE,
    PATH,
    Document,
    PathHandler,
    RequestMetrics,
    Target,
    attributes_of_request,
    check_timeout,
    connection_of,
    find_target,
)
from .security import ANONYMOUS, Attributes, Authorizer, Tokens, User, forbid_anonymous
from .writing import Deleter, Writer

# The API server's core: a function from request to answer.

_VERSION_PATHS: Final = frozenset(("/version", "/version/"))
"""The paths that need no user. A real API server takes a slash at the end of them."""

Connector = Callable[[Target, Request], Awaitable[Response | StreamingResponse]]
"""Answers requests about a subresource, such as the log of a pod; raises Refusal."""


class AggregatedAPI(Protocol):
    """A group version that another part or another API server answers."""

    @property
    def kinds(self) -> Sequence[Kind]:
        """The kinds that discovery shows."""

    async def answer(
        self, request: Request, user: User
    ) -> Response | StreamingResponse:
        """Answer the request of a user; raises Refusal."""


class GenericAPIServer:
    """Answers requests of the Kubernetes API from memory, for the given kinds.

    Upstream: k8s.io/apiserver, which serves the resources that are installed in it.
    """

    def __init__(  # noqa: PLR0913 - the parts of a server
        self,
        kinds: Iterable[Kind],
        storage: Storage,
        *,
        clock: Clock,
        rng: random.Random,
        tokens: Tokens,
        authorizer: Authorizer,
        admission: Chain,
        storages: Iterable[RESTStorage],
        logger: Logger | None = None,
    ) -> None:
        """Take the kinds, the storage, and the authorizer.

        `rng` generates uids and names. `admission` changes and checks objects.
        `storages` has the handlers of resources that use stored objects.
        """
        self.storage = storage
        self.catalogue = Catalogue(kinds)
        self.tokens = tokens
        self.authorizer = authorizer
        by_resource = {each.resource: each for each in storages}
        after_write = {
            name: each.after_write
            for name, each in by_resource.items()
            if each.after_write
        }
        self.objects = Objects(storage, clock, rng, admission, after_write)
        self.address = "127.0.0.1:0"
        self._apis: dict[tuple[str, str], AggregatedAPI] = {}
        self._connectors: dict[tuple[str, str], Connector] = {}
        self._handlers: dict[str, PathHandler] = {}
        self._clock = clock
        self._logger = logger or silent_logger()
        self._openapi = OpenAPI(self.catalogue)
        self.metrics = RequestMetrics(self.catalogue, storage)
        self.serve(PATH, Document(MEDIA_TYPE, self.metrics.text))
        self._renderer = responses.Renderer(clock)
        self._reader = Reader(self.objects, self._renderer)
        self._writer = Writer(
            self.objects,
            self.catalogue,
            tokens,
            authorizer,
            by_resource,
            Deleter(self.objects, self._reader.select),
        )

    def aggregate(self, group: str, version: str, api: AggregatedAPI) -> None:
        """Let an API answer the requests about a group version (kube-aggregator)."""
        self.end_aggregation(group, version)
        self._apis[group, version] = api
        self.catalogue.add_version(group, version)
        for kind in api.kinds:
            self.catalogue.add(kind)

    def end_aggregation(self, group: str, version: str) -> None:
        """Serve a group version of an aggregated API no longer."""
        if api := self._apis.pop((group, version), None):
            for kind in api.kinds:
                self.catalogue.remove(kind)

    def serve(self, path: str, handler: PathHandler) -> None:
        """Let a handler answer the requests of a path that is no resource."""
        self._handlers[path] = handler

    def body_limit(self, request: Request, certificate_user: User | None) -> int:
        """Return the most bytes in the body of a request, 0 for the default.

        The request has no body yet.
        """
        handler = self._handlers.get(request.path)
        if handler is None:
            return 0
        try:
            return handler.body_limit(self._authenticated(request, certificate_user))
        except statuses.Refusal:
            return 0  # `handle` refuses the request, too

    async def handle(self, request: Request) -> Response | StreamingResponse:
        """Answer a request of this process; an error of the server becomes a 500.

        The header Date has the time of the server's clock, as its timestamps.
        """
        answer = await self.handle_as(None, request)
        if not isinstance(answer, Response):
            return answer
        date = format_datetime(self._clock.now(), usegmt=True)
        return Response(answer.status, {**answer.headers, "date": date}, answer.body)

    async def handle_as(
        self, certificate_user: User | None, request: Request
    ) -> Response | StreamingResponse:
        """Answer one request, without a Date; `certificate_user` is that of TLS."""
        try:
            user = self._effective_user(request, certificate_user)
            answer = await self._answer(request, user, _attributes(request))
        except statuses.Refusal as refusal:
            answer = responses.refused(refusal)
        except Exception as error:
            self._logger.error("Request failed", path=request.path, exc_info=error)
            message = f"Internal error occurred: {error}"
            answer = responses.refused(statuses.Refusal(500, "InternalError", message))
        if not isinstance(answer, Response):
            return answer
        try:
            return await responses.presented(answer, request)
        except statuses.Refusal as refusal:
            return responses.refused(refusal)

    async def _answer(
        self, request: Request, user: User, attributes: Attributes
    ) -> Response | StreamingResponse:
        """Answer a request of an effective user (DefaultBuildHandlerChain)."""
        first = request.path.removeprefix("/").partition("/")[0]
        if first in PROBES:  # As upstream, these paths need no permission.
            return probe_answer(request.path, request.query)
        if self.authorizer.enforced:
            self.authorizer.check(user, attributes)
        elif user is ANONYMOUS and request.path not in _VERSION_PATHS:
            raise forbid_anonymous(request.path)
        return await self._route(request, user)

    def _authenticated(self, request: Request, certificate_user: User | None) -> User:
        """Return the user of a request: a certificate goes before a token.

        Raises Refusal.
        """
        return certificate_user or self.tokens.authenticate(
            header(request.headers, "authorization")
        )

    def _effective_user(self, request: Request, certificate_user: User | None) -> User:
        """Return the user of a request, or the impersonated one; raises Refusal."""
        check_timeout(request)  # as upstream, before authentication
        user = self._authenticated(request, certificate_user)
        if user is ANONYMOUS and not self.authorizer.enforced:
            return user  # it may do almost nothing
        return self.impersonated(user, request)

    def name_of_user(self, certificate_user: User | None, request: Request) -> str:
        """Return the name of the user of a request, empty for wrong credentials."""
        try:
            return self._effective_user(request, certificate_user).name
        except statuses.Refusal:
            pass
        try:
            return self._authenticated(request, certificate_user).name
        except statuses.Refusal:
            return ""

    def impersonated(self, user: User, request: Request) -> User:
        """Return the user that `user` impersonates in a request.

        A server with impersonation overrides this method. Raises Refusal.
        """
        del request
        return user

    async def _route(
        self, request: Request, user: User
    ) -> Response | StreamingResponse:
        parts = [part for part in request.path.split("/") if part]
        if handler := self._handlers.get(request.path):
            return await handler.answer(request, user)
        match parts:
            case ["api", version, *rest] if rest:
                return await self._resource(("", version), rest, request, user)
            case ["apis", group, version, *rest] if rest:
                return await self._resource((group, version), rest, request, user)
            case ["openapi", *rest] if not request.path.endswith("/"):
                answer = self._openapi.answer(rest, request)
            case _:
                answer = discovery.answer(self.catalogue, self.address, parts, request)
        if answer.status < 400 and request.method != "GET":
            raise statuses.method_not_allowed()
        return answer

    async def _resource(
        self,
        group_version: tuple[str, str],
        rest: list[str],
        request: Request,
        user: User,
    ) -> Response | StreamingResponse:
        if api := self._apis.get(group_version):
            return await api.answer(request, user)
        if self.catalogue.kinds(*group_version) is None:
            return responses.no_such_path()
        query = dict(request.query)
        target = find_target(self.catalogue, group_version, rest, query, user)
        if target.subresource and not target.kind.subresource(target.subresource):
            kind = target.kind
            if kind.is_custom:  # as customresource_handler.go
                raise statuses.not_found(kind.group, kind.plural, target.name)
            raise statuses.no_such_resource()
        answer = await self._about(target, request)
        if target.kind.deprecation and isinstance(answer, Response):
            return responses.with_warnings(answer, [target.kind.deprecation])
        return answer

    def connect(self, resource: str, subresource: str, connector: Connector) -> None:
        """Let a part of the cluster answer requests about a subresource.

        Without a connector, the kind answers such a request, usually with 501.
        """
        self._connectors[resource, subresource] = connector

    async def _about(
        self, target: Target, request: Request
    ) -> Response | StreamingResponse:
        connector = self._connectors.get((target.kind.resource, target.subresource))
        part = target.kind.subresource(target.subresource)
        if connector is not None and (
            request.method in ("GET", "POST") or (part and part.takes_path)
        ):
            admitted = await self._writer.admit_connection(target, request)
            if admitted.status >= 400:
                return admitted
            return await connector(target, request)
        match request.method:
            case "GET" if connection_of(target):
                return await self._writer.answer(target, request)
            case "GET" if target.name:
                return await self._reader.get(target, request)
            case "GET":
                return await self._reader.list_or_watch(target, request)
            case "HEAD":
                raise statuses.method_not_allowed()
        check_write_options(request.method, target.query)
        if self.storage.trouble:
            message = f"Internal error occurred: {self.storage.trouble}"
            raise statuses.Refusal(500, "InternalError", message)
        accept, verbs = header(request.headers, "accept"), target.kind.verbs
        has_protobuf = not target.kind.is_custom
        form = accepted(
            accept, has_tables="list" in verbs, has_protobuf=has_protobuf
        ).form
        answer = await self._writer.answer(target, request)
        if form is Form.FULL:
            return answer
        return self._renderer.rewritten(target, answer, form)


def _attributes(request: Request) -> Attributes:
    return attributes_of_request(request.method, request.path, request.query)
