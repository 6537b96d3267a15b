"""Something that belongs into every namespace."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.core.v1 import Namespace
from controller_manager.api.meta import KubeObject

_ACTIVE: Final = "Active"


def is_active(namespace: Namespace) -> bool:
    """Tell whether a namespace is not ending: in one that is, nothing is created."""
    return namespace.status.phase == _ACTIVE


def namespace_of(_: object, obj: KubeObject) -> Iterable[str]:
    """Return the key of an object's namespace, for `Maps`."""
    return (obj.metadata.namespace,)
