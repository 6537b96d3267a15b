"""The attributes of a request, from its path alone (endpoints/request/requestinfo.go).

Authorization uses them: the decision does not depend on the existence of the object.
"""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.server.apimachinery.query import is_true
from controller_manager.devcluster.server.rest.selection import exact_name
from controller_manager.devcluster.server.security.authorization import Attributes

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES: Final = frozenset(("status", "finalize"))
_SPECIAL_VERBS: Final = frozenset(("proxy", "watch"))
_WITHOUT_SUBRESOURCE: Final = "proxy"
_CORE: Final = 3
"""The least number of segments in the path of a resource of the core group."""


def attributes_of_request(
    method: str, path: str, query: Mapping[str, str]
) -> Attributes:
    """Return the attributes of a request: a resource, or a path that is none."""
    segments = [each for each in path.split("/") if each]
    prefix = segments[0] if segments else ""
    least = _CORE if prefix == "api" else _CORE + 1
    if prefix not in ("api", "apis") or len(segments) < least:
        return Attributes(method.lower(), path=path)
    group = "" if prefix == "api" else segments[1]
    parts = segments[least - 1 :]
    verb = _VERBS.get(method, "")
    if parts[0] in _SPECIAL_VERBS:
        if len(parts) == 1:
            return Attributes(method.lower(), path=path)
        verb, parts = parts[0], parts[1:]
    return _about(verb, group, parts, query)


def _about(
    verb: str, group: str, parts: list[str], query: Mapping[str, str]
) -> Attributes:
    """Return the attributes for the segments after the version."""
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource = [*parts, "", ""][:3]
    if verb == _WITHOUT_SUBRESOURCE:
        subresource = ""
    if not name and verb == "get":
        verb = "watch" if is_true(query, "watch") else "list"
        name = exact_name(query.get("fieldSelector", ""))
    if not name and verb == "delete":
        verb = "deletecollection"
    return Attributes(
        verb,
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )
