"""The answers of the metrics APIs for the namespace of a scenario.

The development cluster serves these APIs, and answers what an object in the namespace
says. The steps of the recordings have its form.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.conformance.access import MERGE, NOT_FOUND, Access

Require = Callable[[Access], Awaitable[None]]

NAME: Final = "devcluster-metrics"
KEY: Final = "answers"


class Metrics:
    """Sets the answers of the metrics APIs for one namespace.

    `require` makes sure that the cluster has metrics APIs which answer that.
    """

    def __init__(self, access: Access, require: Require | None = None) -> None:
        self._access = access
        self._require = require

    async def answer(self, answers: JSON) -> None:
        if self._require is not None:
            await self._require(self._access)
        body = {"data": {KEY: json.dumps(answers)}}
        path = self._access.path("ConfigMap", NAME)
        found = await self._access.call("PATCH", path, body, MERGE, expected=NOT_FOUND)
        if found["kind"] != "ConfigMap":
            body = {**body, "metadata": {"name": NAME}}
            await self._access.call("POST", self._access.path("ConfigMap"), body)
