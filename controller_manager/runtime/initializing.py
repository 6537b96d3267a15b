"""From a descriptor to a controller."""

from collections.abc import Callable
from typing import Any

from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.reconciler import Reconciler


def initialized(
    descriptor: Descriptor, context: ControllerContext
) -> Controller | None:
    """Return the workers of a controller, not yet running.

    What the descriptor names is imported and called with the context: a
    `Reconciler`, of which the workers are made, or an init function, which returns
    them. `None` says that the configuration has the controller switched off.
    """
    loaded: Any = descriptor.loaded()
    if isinstance(loaded, type) and issubclass(loaded, Reconciler):
        return loaded.make(context)
    init: Callable[[ControllerContext], Controller | None] = loaded
    return init(context)
