"""A finalizer that keeps an object while something uses it.

Upstream: pkg/controller/util/protectionutil, and addFinalizer and removeFinalizer of
each protection controller.
"""

from typing import TypeVar

from msgspec.structs import replace

from controller_manager.api.meta import CompleteObject, KubeObject, is_deleting
from controller_manager.api.resource import Resource
from controller_manager.client.client import Client
from controller_manager.client.errors import NotFound, is_about
from controller_manager.informers.indexes import Index

CompleteT = TypeVar("CompleteT", bound=CompleteObject)


class Protection:
    """The finalizer of one kind of object.

    An object gets the finalizer when it is created. While it is being deleted, it loses
    the finalizer once nothing uses it; the caller finds that out.
    """

    def __init__(self, finalizer: str) -> None:
        self.finalizer = finalizer

    def holds(self, obj: KubeObject) -> bool:
        """Tell whether a deleted object has the finalizer (IsDeletionCandidate)."""
        return is_deleting(obj) and self.protects(obj)

    @property
    def waiting(self) -> Index:
        """An index of the objects that wait for it, by their namespace."""
        return Index(
            f"deleted with {self.finalizer}",
            lambda obj: (obj.metadata.namespace,) if self.holds(obj) else (),
            lambda old, new: self.holds(old) == self.holds(new),
        )

    def protects(self, obj: KubeObject) -> bool:
        """Tell whether an object has the finalizer."""
        return self.finalizer in (obj.metadata.finalizers or ())

    def is_settled(self, obj: KubeObject) -> bool:
        """Tell whether an object needs no change of its finalizer, used or not.

        That is an object that is not being deleted and has the finalizer, or one that
        is being deleted and has it no more.
        """
        return is_deleting(obj) != self.protects(obj)

    def finalizers_of(self, obj: KubeObject) -> tuple[str, ...]:
        """Return the finalizers of an unused object after the change; others stay."""
        others = obj.metadata.finalizers or ()
        if not is_deleting(obj):
            return others if self.protects(obj) else (*others, self.finalizer)
        return tuple(each for each in others if each != self.finalizer)

    async def settle(
        self, client: Client, resource: Resource[CompleteT], obj: CompleteT
    ) -> None:
        """Give an object its finalizer, or take it from a deleted one.

        The caller knows that nothing uses a deleted object. An object that is gone
        needs nothing. Raises Conflict if the stored object is not the same any more
        as `obj`: then it may be used.
        """
        metadata = replace(obj.metadata, finalizers=self.finalizers_of(obj) or None)
        try:
            await client.update_for_metadata(resource, replace(obj, metadata=metadata))
        except NotFound as error:
            if not is_about(error, obj.metadata.name):
                raise
