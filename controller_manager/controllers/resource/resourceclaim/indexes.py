"""Indexes of claims and of their pods, and the values by which claims are counted."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.api.dynamicresources.v1 import ResourceClaim
from controller_manager.api.owners import controller_of
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.indexes import Index

from .consumers import claim_names, group_name


def pod_claim_name(claim: ResourceClaim) -> str | None:
    """Return the entry of its owner that a claim is for, `None` for no entry."""
    annotations = claim.metadata.annotations
    return None if annotations is None else annotations.pod_claim_name


def owner_uid(claim: ResourceClaim) -> str:
    """Return the uid of the pod or the group that a claim was created for, or ""."""
    owner = controller_of(claim)
    return "" if owner is None else owner.uid


def has_admin_access(claim: ResourceClaim) -> bool:
    """Tell whether a claim requests admin access to devices that others use."""
    devices = claim.spec.devices
    return any(
        each.exactly is not None and bool(each.exactly.admin_access)
        for each in (() if devices is None else devices.requests or ())
    )


def label_value(value: bool) -> str:  # noqa: FBT001 - the value itself, not a switch
    """Return the value of a label of a metric."""
    return "true" if value else "false"


def source_of(claim: ResourceClaim) -> str:
    """Return the source of a claim, "" for a claim that a user has created."""
    annotations = claim.metadata.annotations
    if annotations is None:
        return ""
    if annotations.extended_resource_claim == "true":
        return "extended_resource"
    return "resource_claim_template" if annotations.pod_claim_name else ""


def _claim_keys(pod: Pod) -> Iterable[str]:
    return {f"{pod.metadata.namespace}/{name}" for name in claim_names(pod)}


def _template_keys(pod: Pod) -> Iterable[str]:
    return {
        f"{pod.metadata.namespace}/{each.resource_claim_template_name}"
        for each in pod.spec.resource_claims or ()
        if each.resource_claim_template_name is not None
    }


def _group_key(pod: Pod) -> Iterable[str]:
    name = group_name(pod) if pod.spec.resource_claims else ""
    return (f"{pod.metadata.namespace}/{name}",) if name else ()


def _owner_uid(claim: ResourceClaim) -> Iterable[str]:
    return (uid,) if (uid := owner_uid(claim)) else ()


def kind_of(claim: ResourceClaim) -> tuple[str, str, str]:
    """Return the values of the labels by which claims are counted."""
    is_allocated = claim.status.allocation is not None
    return (
        label_value(is_allocated),
        label_value(has_admin_access(claim)),
        source_of(claim),
    )


def kind_value(kind: Iterable[str]) -> str:
    """Return the value of the index `BY_KIND` for the values of the labels."""
    return "|".join(kind)


def _kind(claim: ResourceClaim) -> Iterable[str]:
    return (kind_value(kind_of(claim)),)


def _is_same_kind(old: ResourceClaim, new: ResourceClaim) -> bool:
    return kind_of(old) == kind_of(new)


PODS_BY_CLAIM: Final = Index(
    "resource claim",
    _claim_keys,
    depends_on=DependsOn(
        "status.resourceClaimStatuses",
        "status.extendedResourceClaimStatus",
        reading=("spec.resourceClaims",),
    ),
)
"""Pods by the keys of their claims to devices."""

PODS_BY_TEMPLATE: Final = Index(
    "claim template",
    _template_keys,
    depends_on=DependsOn(reading=("spec.resourceClaims",)),
)
"""Pods by the keys of the templates that their claims come from."""

PODS_BY_GROUP: Final = Index(
    "group with claims",
    _group_key,
    depends_on=DependsOn(reading=("spec.resourceClaims", "spec.schedulingGroup")),
)
"""Pods with claims by the key of their group."""

CLAIMS_BY_OWNER: Final = Index(
    "owner", _owner_uid, depends_on=DependsOn("metadata.ownerReferences")
)
"""Claims by the uid of their owner."""

CLAIMS_BY_KIND: Final = Index("kind", _kind, _is_same_kind)
"""Claims by the labels by which they are counted."""
