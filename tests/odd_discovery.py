"""Discovery documents that have an unusual group beside those of a cluster."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest import transport
from tests.streams import PassedTransport

ODD = "sub.example.com"

NULL_VERBS: JSON = json.loads(
    (Path(__file__).parent / "data" / "discovery-null-verbs.json").read_text()
)["items"][0]
"""An aggregated group that lists only subresources, as an aggregator writes it."""

UNREADABLE: JSON = {"metadata": {"name": ODD}, "versions": "v1"}
"""A group of which only the name can be read."""

PROBLEM = (
    "unable to retrieve the complete list of server APIs: sub.example.com/*: the "
    "discovery document cannot be read: Expected `array | null`, got `str` - at "
    "`$.versions`"
)
"""The failure of the unreadable group."""


@dataclass
class WithGroup(PassedTransport):
    """Adds a group to discovery; `is_listed` makes a server without aggregation."""

    group: JSON
    is_listed: bool = False

    async def request(self, request: transport.Request) -> transport.Response:
        if request.path.startswith(f"/apis/{ODD}/"):
            (version,) = self.group["versions"]
            return _answer({"resources": [_as_listed(version["resources"][0])]})
        if self.is_listed and request.path in ("/api", "/apis"):
            request = replace(request, headers={})
        answer = await self.inner.request(request)
        if request.path != "/apis":
            return answer
        document = json.loads(answer.body)
        if self.is_listed:
            versions = self.group["versions"]
            document["groups"].insert(0, {"name": ODD, "versions": versions})
        else:
            document["items"].insert(0, self.group)
        return replace(answer, body=json.dumps(document).encode())


def _as_listed(resource: JSON) -> dict[str, Any]:
    return {"name": resource["resource"], "verbs": resource["verbs"]}


def _answer(document: JSON) -> transport.Response:
    headers = {"content-type": "application/json"}
    return transport.Response(200, headers, json.dumps(document).encode())
