"""The front door for tests of controllers: a cluster with faults, and a pytest plugin.

The plugin has the fixtures; these are their types, and the cluster without pytest.
Semantic versioning is promised for this module as for `controller_manager.sdk`. A name
is imported at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller_manager.devcluster.testing import (
        ClusterError,
        ClusterSettings,
        DevelopmentCluster,
        Fault,
        Faults,
        RecordedRequest,
        Requests,
        Snapshot,
        TemporaryNamespace,
        VirtualManager,
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

if not TYPE_CHECKING:  # mypy must find a name that is not there

    def __getattr__(name: str) -> object:
        """Import an exported name at its first use."""
        if name not in __all__:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(import_module("controller_manager.devcluster.testing"), name)
