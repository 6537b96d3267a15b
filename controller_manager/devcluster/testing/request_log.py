"""Records the requests of clients on the network, in the thread of the cluster."""

from collections import deque
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.http_server import Answer
from controller_manager.devcluster.server.http import request_info
from controller_manager.devcluster.server.http.negotiation import header
from controller_manager.devcluster.server.security.authorization import Attributes

MOST: Final = 10_000
"""The requests that a cluster keeps."""


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """One request, and the code of its answer.

    `resource` is ``pods`` or ``deployments.apps``, empty for a path that is none.
    `name` is that of the new object for a create. `code` is 0 if the connection was
    cut.
    """

    user: str
    verb: str
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    code: int = 0
    path: str = ""
    user_agent: str = ""

    def __str__(self) -> str:
        """Return for example ``update pods/status shop/web by admin: 200``."""
        what = "/".join(filter(None, (self.resource, self.subresource))) or self.path
        where = "/".join(filter(None, (self.namespace, self.name)))
        return f"{self.verb} {what} {where}".rstrip() + f" by {self.user}: {self.code}"

    @property
    def attributes(self) -> Attributes:
        """The request as an authorizer sees it."""
        plural, _, group = self.resource.partition(".")
        return Attributes(
            self.verb,
            group=group,
            resource=plural,
            subresource=self.subresource,
            namespace=self.namespace,
            name=self.name,
        )


class RequestLog:
    """The last requests, in the order of their answers."""

    def __init__(self) -> None:
        self.requests: deque[RecordedRequest] = deque(maxlen=MOST)

    def record(self, request: Request, user: str, answer: Answer | None) -> None:
        """Record a request of a user, without an answer if the connection was cut."""
        about = request_info.attributes_of_request(
            request.method, request.path, request.query
        )
        name = about.name
        if about.verb == "create" and not name and isinstance(answer, Response):
            name = _name_in(answer.body) or _name_in(request.body or b"")
        resource = f"{about.resource}.{about.group}" if about.group else about.resource
        self.requests.append(
            RecordedRequest(
                user=user,
                verb=about.verb,
                resource=resource,
                subresource=about.subresource,
                namespace=about.namespace,
                name=name,
                code=answer.status if answer is not None else 0,
                path=request.path,
                user_agent=header(request.headers, "user-agent"),
            )
        )


class _Metadata(Struct):
    name: str = ""


class _Object(Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def _name_in(body: bytes) -> str:
    """Return the name of an object in JSON, "" if there is none."""
    try:
        return msgspec.json.decode(body, type=_Object).metadata.name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
