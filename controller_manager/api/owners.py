"""Owner references, and the managing owner of an object."""

from .meta import KubeObject, OwnerReference


def controller_of(obj: KubeObject) -> OwnerReference | None:
    """Return the reference to the managing owner, `None` for none (GetControllerOf)."""
    for reference in obj.metadata.owner_references or ():
        if reference.controller:
            return reference
    return None


def is_controlled_by(obj: KubeObject, owner: KubeObject) -> bool:
    """Tell whether `owner` manages `obj`, by the owner's uid."""
    reference = controller_of(obj)
    return reference is not None and reference.uid == owner.metadata.uid


def controller_reference(
    owner: KubeObject, api_version: str, kind: str
) -> OwnerReference:
    """Return a reference that makes `owner` the manager (NewControllerRef)."""
    return OwnerReference(
        api_version=api_version,
        kind=kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
