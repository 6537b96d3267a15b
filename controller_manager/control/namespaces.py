"""Functions for controllers that create an object in every namespace."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.core.v1 import Namespace
from controller_manager.api.meta import KubeObject

_ACTIVE: Final = "Active"


def is_active(namespace: Namespace) -> bool:
    """Tell whether a namespace is active; nothing is created in a terminating one."""
    return namespace.status.phase == _ACTIVE


def namespace_of(_: object, obj: KubeObject) -> Iterable[str]:
    """Return the key of an object's namespace, for `Maps`."""
    return (obj.metadata.namespace,)
