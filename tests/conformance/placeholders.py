"""Placeholders in a step for values that are known only when the step is played."""

import json
import re
from datetime import datetime, timedelta

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.clock import Clock
from tests.conformance.access import Access

_NUMBERS = 250
"""So many numbers fit in the last part of an IP address."""


async def filled(step: JSON, access: Access, clock: Clock) -> JSON:
    """Return a step with values in the place of its placeholders.

    ``{uid:Kind/name}`` stands for the uid of that object, ``{now:N}`` for the time in N
    seconds, and ``{minutes:N}`` for the last full period of N seconds, in minutes since
    1970: the number in the names of a cron job's jobs.
    """
    text = json.dumps(step)
    for kind, name in set(re.findall(r"{uid:(\w+)/([\w.-]+)}", text)):
        obj = await access.call("GET", access.path(kind, name))
        text = text.replace(f"{{uid:{kind}/{name}}}", obj["metadata"]["uid"])
    now = clock.now()
    text = re.sub(r"{now:(-?\d+)}", lambda found: _time(now, found[1]), text)
    text = re.sub(r"{minutes:(\d+)}", lambda found: _minutes(now, found[1]), text)
    result: JSON = json.loads(text)
    return result


def repeated(step: JSON) -> list[list[JSON]]:
    """Return the steps of a step ``many``, for each number of `from` to `to`.

    ``{i}`` stands for the number; ``{hi}`` and ``{lo}`` are two parts of it, for IP
    addresses.
    """
    text = json.dumps(step["steps"])
    return [
        json.loads(
            text.replace("{i}", str(number))
            .replace("{hi}", str(number // _NUMBERS))
            .replace("{lo}", str(number % _NUMBERS + 1))
        )
        for number in range(step["from"], step["to"] + 1)
    ]


def _time(now: datetime, seconds: str) -> str:
    return format_time(now + timedelta(seconds=int(seconds)))


def _minutes(now: datetime, seconds: str) -> str:
    period = int(seconds)
    return str(int(now.timestamp()) // period * period // 60)
