"""A cluster for the tests of controllers, with faults, and a pytest plugin.

pytest imports this package wherever it is installed. So the first use of a name below
imports the cluster, and not the import of this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .cluster_error import ClusterError
    from .development_cluster import DevelopmentCluster
    from .fault import Fault
    from .faults import Faults
    from .namespaces import TemporaryNamespace
    from .request_log import RecordedRequest
    from .requests import Requests
    from .settings import ClusterSettings
    from .snapshot import Snapshot

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
    "ClusterError": "cluster_error",
    "ClusterSettings": "settings",
    "DevelopmentCluster": "development_cluster",
    "Fault": "fault",
    "Faults": "faults",
    "RecordedRequest": "request_log",
    "Requests": "requests",
    "Snapshot": "snapshot",
    "TemporaryNamespace": "namespaces",
}


def __getattr__(name: str) -> Any:
    """Import an exported name at its first use."""
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
