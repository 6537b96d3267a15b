"""Find the account whose token a request has."""

import base64
import json
from typing import Final

from controller_manager.client.rest.transport import Request

_PARTS_OF_A_TOKEN: Final = 3


def account_of(request: Request) -> str:
    """Return the service account whose token a request has, "" for the manager."""
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    parts = token.split(".")
    if len(parts) != _PARTS_OF_A_TOKEN:
        return ""
    payload = parts[1] + "=" * (-len(parts[1]) % 4)
    claims = json.loads(base64.urlsafe_b64decode(payload))
    return str(claims["sub"]).rpartition(":")[2]
