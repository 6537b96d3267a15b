"""From a path to the kind, namespace, name and subresource that it names."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from controller_manager.devcluster.server.admission import Submission
from controller_manager.devcluster.server.authentication import User
from controller_manager.devcluster.server.catalogue import Catalogue
from controller_manager.devcluster.server.dry_run import asks_for_dry_run
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.statuses import no_such_resource

_NAMESPACES: Final = "namespaces"
"""The segment of a path before the name of a namespace."""

_WATCH: Final = "watch"
"""The segment of a path before what is watched, in the paths of old clients."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a path and its query name.

    A request to write has a `submission`: itself, as admission sees it.
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
        """Whether nothing may be stored; raises Refusal for an unknown value."""
        return asks_for_dry_run(self.query.get("dryRun"))

    @property
    def field_validation(self) -> str:
        """What to do about unknown fields: Ignore, Warn or Strict."""
        return self.query.get("fieldValidation", "Warn")


def find_target(
    catalogue: Catalogue,
    group_version: tuple[str, str],
    parts: list[str],
    query: dict[str, str],
    user: User,
) -> Target:
    """Return what the `parts` of a path below a group version name.

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
    """Return what a path with the prefix ``watch`` names.

    Upstream keeps it for old clients: it watches what is below it, also one object.
    """
    query = {**target.query, "watch": "true"}
    if target.name:
        selectors = (query.get("fieldSelector"), f"metadata.name={target.name}")
        query["fieldSelector"] = ",".join(filter(None, selectors))
    return replace(target, name="", query=query)


def _is_in_namespace(
    catalogue: Catalogue, group_version: tuple[str, str], parts: list[str]
) -> bool:
    """Tell whether a path names something in a namespace, not the namespace itself.

    ``namespaces/x/widgets`` is, ``namespaces/x/status`` is not (requestinfo.go).
    """
    if parts[0] != _NAMESPACES or len(parts) < 3:
        return False
    if len(parts) > 3:
        return True
    scope = catalogue.find(*group_version, _NAMESPACES)
    return scope is None or scope.subresource(parts[2]) is None
