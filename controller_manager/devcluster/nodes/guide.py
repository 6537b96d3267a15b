"""The path ``/devcluster/guide``: what the nodes do, and the annotations of pods.

It is a section of docs/devcluster.md, to which the file ``guide.md`` is a link. An
installation has a copy of it.
"""

from importlib import resources
from typing import Final

from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.server.apimachinery.statuses import (
    method_not_allowed,
)
from controller_manager.devcluster.server.security.authentication import User

PATH: Final = "/devcluster/guide"

_HEADERS: Final = {"content-type": "text/markdown; charset=utf-8"}
_SECTION: Final = "\n## Simulated nodes\n"
_NEXT: Final = "\n## "


class Guide:
    """Answers GET with the guide."""

    def body_limit(self, user: User) -> int:
        """Return 0: requests have bodies of the usual size, if any."""
        del user
        return 0

    async def answer(self, request: Request, user: User) -> Response:
        """Answer a request; raises Refusal 405 for another method than GET."""
        del user
        if request.method != "GET":
            raise method_not_allowed()
        return Response(200, _HEADERS, guide().encode())


def guide() -> str:
    """Return the section about simulated nodes, in Markdown."""
    file = resources.files("controller_manager.devcluster.nodes") / "guide.md"
    _, heading, rest = file.read_text(encoding="utf-8").partition(_SECTION)
    return (heading + rest.partition(_NEXT)[0]).strip() + "\n"
