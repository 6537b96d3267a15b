"""The options of a request for a log (PodLogOptions)."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from controller_manager.api.scalars import parse_rfc3339
from controller_manager.devcluster.scheme.query import is_true
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    bad_request,
    forbidden_field,
    invalid,
    invalid_object,
)


class LogOptions(Struct, frozen=True):
    """The requested part of a log, and the form of its lines."""

    container: str
    follow: bool
    previous: bool
    timestamps: bool
    since: datetime | None
    tail: int | None
    limit: int | None

    @classmethod
    def parse(cls, pod: str, query: Mapping[str, str], now: datetime) -> "LogOptions":
        """Read the options about a pod from a query; raises Refusal."""
        causes: list[Cause] = []
        tail = _number(query, "tailLines", 0, causes)
        seconds = _number(query, "sinceSeconds", 1, causes)
        limit = _number(query, "limitBytes", 1, causes)
        since = _time(query.get("sinceTime"))
        if since is not None and seconds is not None:
            detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            causes.append(forbidden_field("", detail))
        if causes:
            raise invalid_object("", "PodLogOptions", pod, causes)
        if seconds is not None:
            since = now - timedelta(seconds=min(seconds, 10**9))
        return cls(
            container=query.get("container", ""),
            follow=is_true(query, "follow"),
            previous=is_true(query, "previous"),
            timestamps=is_true(query, "timestamps"),
            since=since,
            tail=tail,
            limit=limit,
        )


def _number(
    query: Mapping[str, str], name: str, least: int, causes: list[Cause]
) -> int | None:
    """Return a number of the query, `None` without one; a wrong one is a cause."""
    text = query.get(name)
    if not text:
        return None
    try:
        number = int(text[:20])
    except ValueError:
        message = f'strconv.ParseInt: parsing "{text[:100]}": invalid syntax'
        raise bad_request(message) from None
    if number < least:
        detail = "must be greater than " + ("0" if least else "or equal to 0")
        causes.append(invalid(name, str(number), detail))
    return number


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise bad_request(f"sinceTime: {text[:100]!r} is no time") from None
