"""A reconciler that removes a finalizer from deleted objects that are not in use.

Before it does, it lists the possible users from the API server: a cache may not show
yet that one of them has begun to use the object.
"""

from functools import partial
from typing import ClassVar, TypeVar

from controller_manager.api.meta import CompleteObject, key_of
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError
from controller_manager.runtime.reconciler import Reconciler

from .live_use import LiveUse, Users
from .protection import Protection

CompleteT = TypeVar("CompleteT", bound=CompleteObject)


class LiveProtectionReconciler(Reconciler[CompleteT]):
    """Has the lists of the users of deleted objects.

    A subclass watches the resources of its `users`. Upstream: the protection
    controllers of volume attributes classes and of pod groups.
    """

    protection: ClassVar[Protection]
    """The finalizer."""

    users: ClassVar[tuple[Users, ...]]
    """The resources whose objects may use a protected object."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; index the deleted objects that have the finalizer."""
        super().__init__(context)
        index = self.protection.waiting
        waiting = context.lister(self.resource, index)
        self._live = LiveUse(context, partial(waiting.by_index, index), *self.users)

    async def check_unused(self, obj: CompleteT) -> None:
        """Raise SyncError if the API server shows that a deleted object is in use.

        No cache shows the use then, and the change that ends it may be over before a
        cache shows it. So the key must be retried.
        """
        is_used = await self._live.is_used(obj)
        if not len(self.queue):
            self._live.forget()
        if is_used:
            kind = self.resource.kind
            msg = f"the {kind} {key_of(obj)} is in use, and no cache shows it"
            raise SyncError(msg)
