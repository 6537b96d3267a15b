"""The properties of the TTL controller."""

from typing import Any, Final

from tests.simulation.changes import Path, only
from tests.simulation.properties import AllowedWrite, Properties

_ANNOTATION: Final = ("metadata", "annotations", "node.alpha.kubernetes.io/ttl")


def _sets_ttl(path: Path, old: Any, new: Any) -> bool:
    """Allow the annotation, also as the first that a node has."""
    if path == _ANNOTATION[:2]:
        return old is None and set(new) == {_ANNOTATION[2]}
    return only(_ANNOTATION)(path, old, new)


class TTLProperties(Properties):
    """The controller sets one annotation of nodes."""

    controller = "ttl-controller"
    may_write = (AllowedWrite(("patch",), "nodes", _sets_ttl),)


PROPERTIES = TTLProperties
