"""The front door for tests of controllers: a cluster with faults, and a pytest plugin.

The plugin has the fixtures; these are their types, and the cluster without pytest.
Semantic versioning is promised for this module as for `controller_manager.sdk`. A name
is imported at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controller_manager.devcluster.testing import ClusterError, ClusterSettings
    from controller_manager.devcluster.testing.cluster import (
        DevelopmentCluster,
        TemporaryNamespace,
    )
    from controller_manager.devcluster.testing.faults import Faults, Snapshot
    from controller_manager.devcluster.testing.manager import VirtualManager
    from controller_manager.devcluster.testing.requests import (
        Fault,
        RecordedRequest,
        Requests,
    )

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
    "VirtualManager",
]

_MODULES: Final = {
    "ClusterError": "settings",
    "ClusterSettings": "settings",
    "DevelopmentCluster": "cluster",
    "Fault": "fault_layer",
    "Faults": "faults",
    "RecordedRequest": "requests",
    "Requests": "requests",
    "Snapshot": "running_cluster",
    "TemporaryNamespace": "cluster",
    "VirtualManager": "manager",
}

if not TYPE_CHECKING:  # mypy must find a name that is not there

    def __getattr__(name: str) -> object:
        """Import an exported name at its first use."""
        if name not in _MODULES:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        module = import_module(
            f"controller_manager.devcluster.testing.{_MODULES[name]}"
        )
        return getattr(module, name)
