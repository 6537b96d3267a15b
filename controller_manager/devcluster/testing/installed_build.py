"""The controllers of the installed program, found by an entry point."""

from importlib.metadata import entry_points
from typing import Final

from controller_manager.runtime.registry import Registry, RegistryError

from .cluster_error import ClusterError

GROUP: Final = "controller_manager.build"
"""The entry point group of functions that return the registry of a build."""


def installed_build() -> Registry:
    """Return the controllers of the installed program; raises ClusterError.

    The tests of other projects name no controllers, and this package imports none.
    """
    found = entry_points(group=GROUP)
    if not found:
        msg = (
            f"no installed package has an entry point of the group {GROUP}; install "
            "this project with pip, or give DevelopmentCluster a build"
        )
        raise ClusterError(msg)
    try:
        build: Registry = next(iter(found)).load()()
    except RegistryError as error:
        raise ClusterError(str(error)) from None
    return build
