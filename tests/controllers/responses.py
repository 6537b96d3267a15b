"""Responses of an API server that refuses requests, for tests of controllers."""

from collections.abc import Callable

import msgspec

from controller_manager.client.rest.transport import Request, Response
from tests.clusters import Cluster
from tests.informers.test_informer import Faulty


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


def is_creation(request: Request) -> bool:
    """Tell whether a request creates a pod."""
    return request.method == "POST" and request.path.endswith("/pods")


def refusing(
    cluster: Cluster, chosen: Callable[[Request], bool], code: int, reason: str
) -> Faulty:
    """Return a transport that refuses the chosen requests until `accept`."""
    answer = refusal(code, reason, f"refused: {reason}")
    transport = Faulty(cluster)
    transport.refuse = lambda request: answer if chosen(request) else None
    return transport


def accept(transport: Faulty) -> None:
    """Let a transport refuse nothing any more."""
    transport.refuse = lambda _: None
