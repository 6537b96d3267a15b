"""Selects the requests that a fault meets."""

from collections.abc import Sequence
from typing import Final, TypedDict

from msgspec import Struct

from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.server.http import request_info
from controller_manager.devcluster.server.http.negotiation import header
from controller_manager.devcluster.server.security.authorization import Attributes

from .cluster_error import ClusterError

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
