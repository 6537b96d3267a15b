"""The requests of clients: for faults to meet, and for tests to assert on."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypedDict, Unpack

import msgspec
from msgspec import Struct

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver import request_info
from controller_manager.devcluster.apiserver.negotiation import header
from controller_manager.devcluster.apiserver.security import Attributes
from controller_manager.devcluster.http_server import Answer

from .settings import ClusterError
from .thread import ClusterThread

# The selection of requests

VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


class Which(TypedDict, total=False):
    """The requests that a fault meets; absent keys select all requests.

    - `verbs`: one of :data:`VERBS`, or several.
    - `resource`: ``pods`` with its subresources, ``pods/status``, ``deployments.apps``.
    - `namespace` and `name`: those of the object.
    - `user_agent`: a part of the header User-Agent, which tells clients apart.
    """

    verbs: str | Sequence[str]
    resource: str
    namespace: str
    name: str
    user_agent: str


class RequestFilter(Struct, frozen=True, kw_only=True):
    """Selects requests; an empty field selects all."""

    verbs: tuple[str, ...] = ()
    resource: str = ""
    namespace: str = ""
    name: str = ""
    user_agent: str = ""
    goes_on: bool = False
    """True if it selects only requests that continue from a version or a token."""

    def matches(self, request: Request) -> bool:
        """Tell whether a request is selected."""
        agent = header(request.headers, "user-agent")
        if self.user_agent not in agent or (self.goes_on and not version_of(request)):
            return False
        return self.picks(attributes_of_request(request))

    def picks(self, attributes: Attributes | None) -> bool:
        """Tell whether a request about a resource is selected, `None` for another."""
        if attributes is None:
            return not (self.verbs or self.resource or self.namespace or self.name)
        return (
            (not self.verbs or attributes.verb in self.verbs)
            and self.selects(attributes)
            and self.namespace in ("", attributes.namespace)
            and self.name in ("", attributes.name)
        )

    def selects(self, attributes: Attributes) -> bool:
        """Tell whether a resource is selected."""
        wanted, _, part = self.resource.partition("/")
        plural, _, group = wanted.partition(".")
        return (
            plural in ("", attributes.resource)
            and group in ("", attributes.group)
            and part in ("", attributes.subresource)
        )


def make_filter(
    which: Which, default_verbs: Sequence[str] = (), *, goes_on: bool = False
) -> RequestFilter:
    """Return the filter of `which`; raises ClusterError for an unknown verb.

    Raises TypeError for an unknown keyword.
    """
    verbs = which.get("verbs", default_verbs)
    chosen = (verbs,) if isinstance(verbs, str) else tuple(verbs)
    for verb in chosen:
        if verb not in VERBS:
            msg = f"verbs: there is no verb {verb!r}; the verbs are {', '.join(VERBS)}"
            raise ClusterError(msg)
    rest = {name: value for name, value in which.items() if name != "verbs"}
    return RequestFilter(verbs=chosen, goes_on=goes_on, **rest)  # type: ignore[arg-type]


def version_of(request: Request) -> str:
    """Return the version or token from which a request continues, empty for none."""
    query = dict(request.query)
    version = query.get("continue") or query.get("resourceVersion", "")
    return "" if version == "0" else version


def attributes_of_request(request: Request) -> Attributes | None:
    """Return the attributes of a request, `None` if it names no resource."""
    attributes = request_info.attributes_of_request(
        request.method, request.path, request.query
    )
    return None if attributes.path else attributes


# The log, in the thread of the cluster

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


# The list for a test, in any thread

WRITES: Final = ("create", "delete", "deletecollection", "patch", "update")
"""The verbs of requests that change objects."""


class Requests:
    """The requests of clients on the network, in the order of their answers.

    A cluster keeps the last 10,000. A watch is recorded when it begins. The nodes and
    controllers of the cluster do not use the network: their requests are not there.
    Methods may be called in any thread.
    """

    def __init__(self, thread: ClusterThread[Any], log: RequestLog) -> None:
        """Take the log of a cluster, and the cluster's thread."""
        self._thread = thread
        self._log = log

    def __iter__(self) -> Iterator[RecordedRequest]:
        """Iterate over the requests so far."""
        return iter(self._all())

    def __len__(self) -> int:
        """Return the number of requests so far."""
        return len(self._all())

    def of(self, user: str = "", **which: Unpack[Which]) -> list[RecordedRequest]:
        """Return the requests of a user, or of all, that the keywords select.

        The keywords are those of the faults. Raises ClusterError for an unknown verb.
        """
        wanted = make_filter(which)
        return [
            each
            for each in self._all()
            if user in ("", each.user)
            and wanted.picks(each.attributes if each.resource else None)
            and wanted.user_agent in each.user_agent
        ]

    def writes(self, user: str = "", **which: Unpack[Which]) -> list[RecordedRequest]:
        """Return the requests that change objects, as `of` selects them."""
        which.setdefault("verbs", WRITES)
        return self.of(user, **which)

    def clear(self) -> None:
        """Forget the requests so far."""
        self._thread.call(self._log.requests.clear)

    def _all(self) -> Sequence[RecordedRequest]:
        return self._thread.call(lambda: [*self._log.requests])
