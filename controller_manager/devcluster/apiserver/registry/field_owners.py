"""The manager of fields that a request names, and the versions of its kind."""

from collections.abc import Mapping
from functools import cache, lru_cache, partial
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.transport import Request
from controller_manager.clock import Clock
from controller_manager.devcluster.apiserver.fields.entries import Manager
from controller_manager.devcluster.apiserver.fields.field_manager import FieldManager
from controller_manager.devcluster.apiserver.fields.field_set import (
    EMPTY,
    FieldSet,
    union,
)
from controller_manager.devcluster.apiserver.fields.field_type import (
    DEDUCED,
    type_of_model,
)
from controller_manager.devcluster.apiserver.fields.merging import Version
from controller_manager.devcluster.apiserver.http.negotiation import header
from controller_manager.devcluster.apiserver.http.request_info import Target
from controller_manager.devcluster.apiserver.rest.answers import Answers
from controller_manager.devcluster.apiserver.rest.kind import (
    Catalogue,
    Kind,
    in_version,
    to_stored,
)
from controller_manager.devcluster.scheme.statuses import (
    invalid,
    invalid_object,
    shown,
    too_long,
)
from controller_manager.devcluster.storage import Stored

MOST_BYTES: Final = 128
"""The most bytes in the name of a manager of fields."""

_OPTIONS: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions"}

_STATUS: Final[FieldSet] = {"f:status": {}}


def field_manager(
    target: Target,
    request: Request,
    operation: str,
    clock: Clock,
    catalogue: Catalogue,
) -> FieldManager:
    """Return the manager of fields that a request names, or its user agent.

    Raises Refusal if the name in the request is invalid.
    """
    kind, subresource = target.kind, target.subresource
    options = _OPTIONS.get(request.method, "PatchOptions")
    name = _checked(target.query, options) or _agent(request.headers) or "unknown"
    version = kind.api_version if operation == "Update" else ""
    submission = target.submission
    return FieldManager(
        Manager(name, operation, subresource, version),
        version_of(kind),
        partial(_find, catalogue, kind, submission),
        _reset(kind, subresource),
        # The time is the same in all attempts to write.
        format_time(submission.now if submission else clock.now()),
    )


def part_of_cluster(
    name: str, kind: Kind, subresource: str, clock: Clock
) -> FieldManager:
    """Return the manager of fields for a part of the cluster that sends no requests.

    Such parts write only kinds whose versions all have the same fields.
    """
    version = version_of(kind)
    return FieldManager(
        Manager(name, "Update", subresource, kind.api_version),
        version,
        lambda api_version: version._replace(api_version=api_version),
        _reset(kind, subresource),
        format_time(clock.now()),
    )


def version_of(kind: Kind) -> Version:
    """Return the version of a kind in which objects are merged."""
    model = kind.type_name
    if model and not kind.conversion:
        return _only_version(kind.api_version, model)
    own = kind.strategy.field_type()
    type_ = type_of_model(model) if model else own or DEDUCED
    shown = partial(_shown, kind)
    return Version(kind.api_version, type_, shown, partial(to_stored, kind))


@cache
def _only_version(api_version: str, model: str) -> Version:
    return Version(api_version, type_of_model(model), _same, _same)


def _same(obj: JSON) -> JSON:
    return obj


def _shown(kind: Kind, obj: JSON) -> JSON:
    return in_version(kind, Stored({"apiVersion": "", **obj}, 0)).obj


def _find(
    catalogue: Catalogue, kind: Kind, answers: Answers | None, api_version: str
) -> Version | None:
    """Return the version of a kind by its apiVersion, `None` if it is not served."""
    group, _, version = api_version.rpartition("/")
    found = catalogue.find(group, version, kind.plural)
    if found is None or found.kind != kind.kind:
        return None
    return version_of(found.within(answers) if answers else found)


def _reset(kind: Kind, subresource: str) -> FieldSet:
    """Return the fields that an endpoint does not write (GetResetFields)."""
    if subresource == "status":
        kept: FieldSet = {f"f:{name}": {} for name in kind.strategy.kept_by_status}
        more = {"f:metadata": kept} if kept else EMPTY
        return union(kind.strategy.not_in_status, more)
    return _STATUS if kind.has_status and not subresource else EMPTY


def _agent(headers: Mapping[str, str]) -> str:
    """Return the first part of the user agent (managerOrUserAgent)."""
    return _printable(header(headers, "user-agent").partition("/")[0])


@lru_cache(256)
def _printable(agent: str) -> str:
    return "".join(each for each in agent if each.isprintable())[:MOST_BYTES]


def _checked(query: Mapping[str, str], options: str) -> str:
    """Return the parameter fieldManager; raises Refusal if it is not valid.

    Upstream: apimachinery/pkg/apis/meta/v1/validation.
    """
    name, causes = query.get("fieldManager", ""), []
    if len(name.encode()) > MOST_BYTES:
        causes.append(too_long("fieldManager", MOST_BYTES))
    position = 0
    for each in name:
        if not each.isprintable():
            detail = f"invalid character U+{ord(each):04X} (at position {position})"
            causes.append(invalid("fieldManager", shown(name), detail))
        position += len(each.encode())
    if causes:
        raise invalid_object("meta.k8s.io", options, "", causes)
    return name
