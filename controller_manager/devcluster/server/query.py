"""Query parameters: booleans, numbers, and checks of list options."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.server.statuses import (
    bad_request,
    forbidden_field,
    invalid_object,
)

_TRUE: Final = frozenset(("1", "true", "True"))


def is_true(query: Mapping[str, str], name: str) -> bool:
    """Tell whether a parameter is true."""
    return query.get(name) in _TRUE


def whole_number(query: Mapping[str, str], name: str, default: int) -> int:
    """Return a parameter as a number; raises Refusal 400."""
    text = query.get(name) or str(default)
    if not text.isdecimal():
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number')
    return int(text)


def check_list_options(query: Mapping[str, str]) -> None:
    """Check the parameters of a list or watch against each other; raises Refusal."""
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion")
    detail = ""
    if "sendInitialEvents" in query and match != "NotOlderThan":
        detail = (
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    elif match == "Exact" and version == "0":
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    elif match and not is_true(query, "watch") and not version:
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    if detail:
        cause = forbidden_field("resourceVersionMatch", detail)
        raise invalid_object("meta.k8s.io", "ListOptions", "", [cause])
