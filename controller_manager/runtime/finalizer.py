"""A finalizer, by which a controller cleans up before an object is gone."""

from typing import TypeVar

from controller_manager.api.meta import KubeObject, Resource, is_deleting
from controller_manager.client.rest.client import Client, PatchType

ObjectT = TypeVar("ObjectT", bound=KubeObject)


class Finalizer:
    """Keeps a deleted object until its controller has cleaned up.

    Add it before anything is made that the cluster does not delete. Each write is bound
    to the version of the object, so that no finalizer of others is lost: it raises
    Conflict if the object has changed, and the key is retried.

    >>> CLEANUP = Finalizer("example.com/cleanup")
    >>> held = await CLEANUP.add(client, WEBSITES, website)
    >>> CLEANUP.is_on(held), CLEANUP.must_clean_up(held)
    (True, False)
    >>> free = await CLEANUP.remove(client, WEBSITES, held)
    >>> CLEANUP.is_on(free)
    False

    Upstream: AddFinalizer, RemoveFinalizer and ContainsFinalizer of controllerutil.
    """

    def __init__(self, name: str) -> None:
        """Take the name, such as ``example.com/cleanup``."""
        self.name = name

    def is_on(self, obj: KubeObject) -> bool:
        """Tell whether an object has the finalizer."""
        return self.name in (obj.metadata.finalizers or ())

    def must_clean_up(self, obj: KubeObject) -> bool:
        """Tell whether an object is being deleted and waits for this finalizer."""
        return is_deleting(obj) and self.is_on(obj)

    async def add(
        self, client: Client, resource: Resource[ObjectT], obj: ObjectT
    ) -> ObjectT:
        """Give an object the finalizer, unless it has it; return it as stored.

        An object that is being deleted takes no finalizer.
        """
        if self.is_on(obj) or is_deleting(obj):
            return obj
        others = obj.metadata.finalizers or ()
        return await _write(client, resource, obj, (*others, self.name))

    async def remove(
        self, client: Client, resource: Resource[ObjectT], obj: ObjectT
    ) -> ObjectT:
        """Take the finalizer from an object that has it; return it as stored."""
        if not self.is_on(obj):
            return obj
        others = obj.metadata.finalizers or ()
        left = tuple(each for each in others if each != self.name)
        return await _write(client, resource, obj, left)


async def _write(
    client: Client,
    resource: Resource[ObjectT],
    obj: ObjectT,
    finalizers: tuple[str, ...],
) -> ObjectT:
    # A merge patch replaces the whole list, a strategic one would add to it.
    patch = {"metadata": {"finalizers": finalizers}}
    return await client.patch_exactly(
        resource, obj, patch, PatchType.MERGE, same_version=True
    )
