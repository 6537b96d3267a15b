"""Responses of an API server that refuses requests, for tests of controllers."""

import msgspec

from controller_manager.client.rest.transport import Response


def refusal(code: int, reason: str, message: str = "no") -> Response:
    """Return the response of a server that refuses a request."""
    status = {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return Response(code, body=msgspec.json.encode(status))
