"""Cache transforms: they drop unused fields and share equal parts of objects.

A cache of 100,000 pods would hold the same few namespaces, nodes, label sets and
owners 100,000 times, and many fields that no controller reads. Transforms drop these
fields and share equal parts. Measured on pods of 3.7 kB, with the fields that ten
controllers read: the memory of a pod falls from 2.6 kB to 0.7, for 2 µs an object.
"""

from collections.abc import Callable, Iterable
from sys import intern
from typing import Any, Final

from msgspec.structs import force_setattr

from controller_manager.api.core.v1 import Pod
from controller_manager.api.discovery.v1 import EndpointConditions, EndpointSlice
from controller_manager.api.meta import AnyResource, PartialObject
from controller_manager.client.rest.serializer import EventDecoder

from .pods import PodEventDecoder, PodTransform
from .reads import OwnerTransform, Reads, kept_of, trim_for


class MetadataTransform:
    """Makes metadata-only objects share namespaces and owners."""

    def __init__(self) -> None:
        self._owners = OwnerTransform()

    def __call__(self, obj: PartialObject) -> None:
        """Replace parts of `obj` by equal parts of earlier objects."""
        self._owners.share(obj.metadata)


DROPPED_BY_MONITORS: Final = ("labels", "creation_timestamp")
"""The fields of the metadata that no caller of a monitor reads."""


class MonitorTransform(MetadataTransform):
    """Makes objects of monitors small: only their identity and owners are read."""

    def __call__(self, obj: PartialObject) -> None:
        """Drop labels and creation time, and share the other parts."""
        super().__call__(obj)
        for name in DROPPED_BY_MONITORS:
            force_setattr(obj.metadata, name, None)


class EndpointSliceTransform:
    """Makes the endpoints of slices share what most of them have in common.

    An endpoint takes 0.4 kB instead of 0.7.
    """

    def __init__(self) -> None:
        self._conditions: dict[EndpointConditions, EndpointConditions] = {}

    def __call__(self, obj: EndpointSlice) -> None:
        """Replace parts of `obj` by equal parts of earlier slices."""
        for each in obj.endpoints or ():
            known = self._conditions.setdefault(each.conditions, each.conditions)
            force_setattr(each, "conditions", known)
            if each.node_name is not None:
                force_setattr(each, "node_name", intern(each.node_name))
            if each.zone is not None:
                force_setattr(each, "zone", intern(each.zone))
            if each.target_ref is not None:
                force_setattr(each.target_ref, "kind", intern(each.target_ref.kind))
                namespace = intern(each.target_ref.namespace)
                force_setattr(each.target_ref, "namespace", namespace)


def transform_for(
    resource: AnyResource, declared: Iterable[Reads]
) -> Callable[[Any], None] | None:
    """Return the function that makes the objects of a resource small for the cache.

    It drops the fields that none of the declarations reads, and makes pods share
    equal parts. All declarations must be of this resource. `None` if there is
    nothing to drop or share.
    """
    if resource.metadata_only:
        return MetadataTransform()
    if resource.type is EndpointSlice:
        return EndpointSliceTransform()
    declarations = list(declared)
    trim = trim_for(declarations)
    if resource.type is not Pod:
        return trim
    return PodTransform(
        trim,
        trim_for(declarations, leaving=("spec",)),
        is_whole=kept_of(declarations) is None,
    )


def decoder_for(transform: Callable[[Any], None] | None) -> EventDecoder[Any] | None:
    """Return the decoder of watches that shares parts with a transform.

    `None` if the usual one does.
    """
    if isinstance(transform, PodTransform):
        return PodEventDecoder(transform.specs)
    return None
