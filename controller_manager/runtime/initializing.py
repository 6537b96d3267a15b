"""Makes a controller from its descriptor."""

from typing import Any

from .context import ControllerContext, InitFunction
from .controller import Controller
from .descriptor import Descriptor
from .reconciler import Reconciler


def make_controller(descriptor: Descriptor, context: ControllerContext) -> Controller:
    """Return the workers of a controller, not yet running.

    The descriptor names a `Reconciler` class or an init function. It is imported and
    called with the context. The caller checks before whether flags are missing
    (`Descriptor.lacks`). Raises TypeError if the init function returns `None`.
    """
    loaded: Any = descriptor.resolve()
    if isinstance(loaded, type) and issubclass(loaded, Reconciler):
        return loaded.make(context)
    init: InitFunction = loaded
    made: Controller | None = init(context)
    if made is None:
        msg = "its init function returned None; name missing flags in `lacks`"
        raise TypeError(msg)
    return made
