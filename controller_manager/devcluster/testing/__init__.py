"""A cluster for the tests of controllers, with faults, and a pytest plugin.

pytest imports this package wherever it is installed. So the first use of a name below
imports the cluster, and not the import of this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .cluster import DevelopmentCluster, TemporaryNamespace
    from .faults import Faults, Snapshot
    from .requests import Fault, RecordedRequest, Requests
    from .thread import ClusterError, ClusterSettings

__all__ = [
    "ClusterError",
    "ClusterSettings",
    "DevelopmentCluster",
    "Fault",
    "Faults",
    "RecordedRequest",
    "Requests",
    "Snapshot",
    "TemporaryNamespace",
]

_MODULES: Final = {
    "ClusterError": "thread",
    "ClusterSettings": "thread",
    "DevelopmentCluster": "cluster",
    "Fault": "requests",
    "Faults": "faults",
    "RecordedRequest": "requests",
    "Requests": "requests",
    "Snapshot": "faults",
    "TemporaryNamespace": "cluster",
}


def __getattr__(name: str) -> Any:
    """Import an exported name at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
