"""The front door for tests of controllers: a cluster with faults, and a pytest plugin.

The plugin has the fixtures; these are their types, and the cluster without pytest.
Semantic versioning is promised for this module as for `controller_manager.sdk`. A name
is imported at its first use.
"""

from typing import TYPE_CHECKING

from controller_manager.devcluster import testing

__all__ = testing.__all__

if TYPE_CHECKING:
    from controller_manager.devcluster.testing import *  # noqa: F403 - of `__all__`
else:

    def __getattr__(name: str) -> object:
        """Import an exported name at its first use."""
        return getattr(testing, name)
