"""Finds the objects that selectors of other objects match."""

from controller_manager.api.core.v1 import PODS
from controller_manager.api.meta import AnyResource
from controller_manager.api.selectors import LabelSelector, format_selector

from .items import Item
from .view import View


async def owned(
    view: View, owner: Item, resource: AnyResource, selector: LabelSelector | None
) -> tuple[Item, ...]:
    """Return the objects that a selector matches and that an owner controls."""
    labels = format_selector(selector)
    found = await view.list(resource, owner.namespace, labels=labels)
    return tuple(each for each in found if each.is_controlled_by(owner))


async def pods_of(
    view: View, owner: Item, selector: LabelSelector | None
) -> tuple[Item, ...]:
    """Return the pods that a selector matches and that an owner controls."""
    return await owned(view, owner, PODS, selector)


def has_all(
    view: View, owner: Item, resource: AnyResource, selector: LabelSelector | None
) -> bool:
    """Tell whether all objects that a selector matches were read."""
    labels = format_selector(selector)
    return view.is_whole(resource, owner.namespace, labels=labels)


def has_all_pods(view: View, owner: Item, selector: LabelSelector | None) -> bool:
    """Tell whether all pods that a selector matches were read."""
    return has_all(view, owner, PODS, selector)
