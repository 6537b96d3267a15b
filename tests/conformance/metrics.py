"""What the metrics APIs answer for the namespace of a scenario.

The development cluster serves these APIs, and answers what an object in the namespace
says. The steps of the recordings have its form.
"""

import json
from typing import Any, Final

from tests.conformance.access import MERGE, NOT_FOUND, Access

JSON = dict[str, Any]

NAME: Final = "devcluster-metrics"
KEY: Final = "answers"


class Metrics:
    """Sets the answers of the metrics APIs for one namespace."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def answer(self, answers: JSON) -> None:
        """Let the metrics APIs answer this from now on."""
        body = {"data": {KEY: json.dumps(answers)}}
        path = self._access.path("ConfigMap", NAME)
        found = await self._access.call("PATCH", path, body, MERGE, expected=NOT_FOUND)
        if found["kind"] != "ConfigMap":
            body = {**body, "metadata": {"name": NAME}}
            await self._access.call("POST", self._access.path("ConfigMap"), body)
