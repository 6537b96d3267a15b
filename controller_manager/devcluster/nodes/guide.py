"""The path ``/devcluster/guide``: what the nodes do, and the annotations of pods.

It is a section of docs/devcluster.md, to which the file ``guide.md`` is a link. An
installation has a copy of it.
"""

from importlib import resources
from typing import Final

PATH: Final = "/devcluster/guide"
MEDIA_TYPE: Final = "text/markdown; charset=utf-8"

_SECTION: Final = "\n## Simulated nodes\n"
_NEXT: Final = "\n## "


def guide() -> bytes:
    """Return the section about simulated nodes, in Markdown."""
    file = resources.files("controller_manager.devcluster.nodes") / "guide.md"
    _, heading, rest = file.read_text(encoding="utf-8").partition(_SECTION)
    return f"{(heading + rest.partition(_NEXT)[0]).strip()}\n".encode()
