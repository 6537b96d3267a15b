"""The options of a request for a log (PodLogOptions)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from controller_manager.devcluster.scheme.query import is_true
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    bad_request,
    invalid,
    invalid_object,
)

_NO_TIME: Final = "sinceTime is not served by the development cluster: use sinceSeconds"


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
        if causes:
            raise invalid_object("", "PodLogOptions", pod, causes)
        if query.get("sinceTime"):
            raise bad_request(_NO_TIME)
        age = None if seconds is None else timedelta(seconds=min(seconds, 10**9))
        return cls(
            container=query.get("container", ""),
            follow=is_true(query, "follow"),
            previous=is_true(query, "previous"),
            timestamps=is_true(query, "timestamps"),
            since=None if age is None else now - age,
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
