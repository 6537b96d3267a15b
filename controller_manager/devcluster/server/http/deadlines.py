"""The parameter ``timeout`` of a request (endpoints/filters/request_deadline.go).

Clients send it beside a deadline of their own. A request here is answered without
waiting, or has a limit of its own, so the value is checked and not used.
"""

import re
from typing import Final

from controller_manager.client.transport import Request
from controller_manager.devcluster.server.apimachinery.statuses import (
    bad_request,
    shown,
)
from controller_manager.devcluster.server.http.request_info import attributes_of_request
from controller_manager.options.durations import parse_duration

_LONG_VERBS: Final = frozenset(("proxy", "watch"))
_LONG_SUBRESOURCES: Final = frozenset(("attach", "exec", "log", "portforward", "proxy"))
"""Requests that last as long as their clients want have no deadline."""

_PART: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)([^0-9.]*)")
_UNITS: Final = frozenset(("ns", "us", "µs", "\u03bcs", "ms", "s", "m", "h"))


def check_timeout(request: Request) -> None:
    """Raise Refusal 400 for a ``timeout`` that is no duration of Go."""
    text = next((value for name, value in request.query if name == "timeout"), "")
    if not text:
        return
    try:
        parse_duration(text)
    except ValueError:
        query = dict(request.query)
        found = attributes_of_request(request.method, request.path, query)
        if found.verb in _LONG_VERBS or found.subresource in _LONG_SUBRESOURCES:
            return
        prefix = "invalid timeout specified in the request URL"
        raise bad_request(f"{prefix} - time: {_error(text)}") from None


def _error(text: str) -> str:
    """Return the words of Go's time package about a wrong duration."""
    rest = text[1:] if text[0] in "+-" else text
    while match := _PART.match(rest):
        unit = match[1]
        if not unit:
            return f"missing unit in duration {shown(text)}"
        if unit not in _UNITS:
            return f"unknown unit {shown(unit)} in duration {shown(text)}"
        rest = rest[match.end() :]
    return f"invalid duration {shown(text)}"
