"""A cluster for the tests of controllers, with faults, and a pytest plugin.

- `DevelopmentCluster`: a cluster in a thread of its own, for tests with and without
  pytest; `ClusterSettings` are its settings.
- `Snapshot`: the state of a cluster, to which a test puts it back.
- `Faults`: what can go wrong between a client and the API server.
- `plugin`: the fixtures and options of pytest.

pytest imports this package wherever it is installed. So nothing of a cluster is
imported before somebody uses a name below.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from controller_manager.devcluster.testing.cluster_error import ClusterError
    from controller_manager.devcluster.testing.development_cluster import (
        DevelopmentCluster,
    )
    from controller_manager.devcluster.testing.fault import Fault
    from controller_manager.devcluster.testing.faults import Faults
    from controller_manager.devcluster.testing.namespaces import TemporaryNamespace
    from controller_manager.devcluster.testing.settings import ClusterSettings
    from controller_manager.devcluster.testing.snapshot import Snapshot

__all__ = [
    "ClusterError",
    "ClusterSettings",
    "DevelopmentCluster",
    "Fault",
    "Faults",
    "Snapshot",
    "TemporaryNamespace",
]

_MODULES: Final = {
    "ClusterError": "cluster_error",
    "ClusterSettings": "settings",
    "DevelopmentCluster": "development_cluster",
    "Fault": "fault",
    "Faults": "faults",
    "Snapshot": "snapshot",
    "TemporaryNamespace": "namespaces",
}


def __getattr__(name: str) -> Any:
    """Import what is exported when it is used first."""
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
