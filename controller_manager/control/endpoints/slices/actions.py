"""The writes of slices of one sync, as a value."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.api.meta import OwnerReference

from .packing import Packing
from .template import is_owned


class SliceActions(Struct, frozen=True):
    """Slices to create, to update and to delete, and those that stay as they are."""

    create: tuple[EndpointSlice, ...] = ()
    update: tuple[EndpointSlice, ...] = ()
    delete: tuple[EndpointSlice, ...] = ()
    unchanged: tuple[EndpointSlice, ...] = ()

    @property
    def count(self) -> int:
        """The number of slices that are written."""
        return len(self.create) + len(self.update) + len(self.delete)


def combined(
    packings: Iterable[Packing], unwanted: Sequence[EndpointSlice] = ()
) -> SliceActions:
    """Return the actions of several packings; unwanted slices are deleted."""
    found = list(packings)
    return SliceActions(
        create=tuple(one for each in found for one in each.create),
        update=tuple(one for each in found for one in each.update),
        delete=(*(one for each in found for one in each.delete), *unwanted),
        unchanged=tuple(one for each in found for one in each.unchanged),
    )


def recycled(changes: SliceActions, owner: OwnerReference) -> SliceActions:
    """Return actions that update a slice instead of deleting it and creating another.

    Only slices of this owner are used again, and only for the same address type, which
    cannot change. The garbage collector deletes a slice of another owner soon
    (finalize).
    """
    create = list(changes.create)
    update, delete = list(changes.update), []
    for each in changes.delete:
        fits = create and each.address_type == create[-1].address_type
        if fits and is_owned(each, owner):
            update.append(_reused(each, create.pop()))
        else:
            delete.append(each)
    return replace(
        changes, create=tuple(create), update=tuple(update), delete=tuple(delete)
    )


def _reused(existing: EndpointSlice, new: EndpointSlice) -> EndpointSlice:
    """Return an existing slice with the content of a new one, but with its own name."""
    annotations = new.metadata.annotations or existing.metadata.annotations
    metadata = replace(
        existing.metadata, labels=new.metadata.labels, annotations=annotations
    )
    return replace(
        existing, metadata=metadata, endpoints=new.endpoints, ports=new.ports
    )
