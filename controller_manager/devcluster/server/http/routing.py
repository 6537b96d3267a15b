"""Parses a path into kind, namespace, name and subresource."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from controller_manager.devcluster.server.apimachinery.dry_run import asks_for_dry_run
from controller_manager.devcluster.server.apimachinery.statuses import no_such_resource
from controller_manager.devcluster.server.rest.admission import Submission
from controller_manager.devcluster.server.rest.catalogue import Catalogue
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.security.authentication import User

_NAMESPACES: Final = "namespaces"
"""The segment of a path before the name of a namespace."""

_WATCH: Final = "watch"
"""The first segment of the watch paths of old clients."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target that a path and its query name.

    A write has a `submission`: the request in the form for admission.
    """

    kind: Kind
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, str]
    user: User
    submission: Submission | None = None

    @property
    def dry_run(self) -> bool:
        """True for a dry run; raises Refusal for an unknown value."""
        return asks_for_dry_run(self.query.get("dryRun"))

    @property
    def field_validation(self) -> str:
        """The treatment of unknown fields: Ignore, Warn or Strict."""
        return self.query.get("fieldValidation", "Warn")


def find_target(
    catalogue: Catalogue,
    group_version: tuple[str, str],
    parts: list[str],
    query: dict[str, str],
    user: User,
) -> Target:
    """Return the target that the `parts` of a path below a group version name.

    Raises Refusal 404.
    """
    if parts[0] == _WATCH and len(parts) > 1:
        return _watched(find_target(catalogue, group_version, parts[1:], query, user))
    namespace = ""
    if _is_in_namespace(catalogue, group_version, parts):
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = [*parts, "", "", ""][:3]
    kind = catalogue.find(*group_version, plural)
    if kind is None or len(parts) > 3:
        raise no_such_resource()
    if kind.namespaced and not namespace and name:
        raise no_such_resource()
    return Target(kind, namespace, name, subresource, query, user)


def _watched(target: Target) -> Target:
    """Return the target that a path with the prefix ``watch`` names.

    Upstream keeps the prefix for old clients: it watches a resource or one object.
    """
    query = {**target.query, "watch": "true"}
    if target.name:
        selectors = (query.get("fieldSelector"), f"metadata.name={target.name}")
        query["fieldSelector"] = ",".join(filter(None, selectors))
    return replace(target, name="", query=query)


def _is_in_namespace(
    catalogue: Catalogue, group_version: tuple[str, str], parts: list[str]
) -> bool:
    """Tell whether a path names a resource in a namespace, not the namespace itself.

    ``namespaces/x/widgets`` does, ``namespaces/x/status`` does not (requestinfo.go).
    """
    if parts[0] != _NAMESPACES or len(parts) < 3:
        return False
    if len(parts) > 3:
        return True
    scope = catalogue.find(*group_version, _NAMESPACES)
    return scope is None or scope.subresource(parts[2]) is None
