"""The consumers of claims: pods, and groups of pods; indexes find them.

Upstream: podNeedsClaims and podNeedsWork, and ClaimName of resourceclaim.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api import meta
from controller_manager.api.core.v1 import (
    PODS,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
)
from controller_manager.api.dynamicresources.v1 import ClaimConsumer, ResourceClaim
from controller_manager.api.meta import AnyResource
from controller_manager.api.pods import is_terminal
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS, PodGroup
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.store import Index


class _GroupSpec(meta.APIStruct, frozen=True):
    """The claims that the pods of a group share."""

    resource_claims: tuple[PodResourceClaim, ...] | None = None


class _GroupStatus(meta.APIStruct, frozen=True):
    """The names of the claims that were created for a group."""

    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] | None = None


class Consumer(Struct, frozen=True):
    """A pod, or a group of pods, with the claims that it wants.

    `status_names` has the claims in the status of the consumer: the name of the claim
    that was created for an entry of `wanted`, or `None` if the entry needs no claim.
    """

    resource: AnyResource
    metadata: meta.Metadata
    wanted: tuple[PodResourceClaim, ...]
    status_names: Mapping[str, str | None]

    @property
    def namespace(self) -> str:
        """Return the namespace of the consumer and of its claims."""
        return self.metadata.namespace

    @property
    def name(self) -> str:
        """Return the name."""
        return self.metadata.name

    @property
    def uid(self) -> str:
        """Return the uid."""
        return self.metadata.uid

    @property
    def reference(self) -> ClaimConsumer:
        """Return the entry by which a claim is reserved for this consumer."""
        group, plural = self.resource.group, self.resource.plural
        return ClaimConsumer(
            api_group=group, resource=plural, name=self.name, uid=self.uid
        )

    def is_known(self, wanted: PodResourceClaim) -> bool:
        """Tell whether the claim of an entry is known."""
        is_named = wanted.resource_claim_name is not None
        return is_named or wanted.name in self.status_names

    def name_of(self, wanted: PodResourceClaim) -> str | None:
        """Return the name of the claim of an entry, `None` if it is not known."""
        if wanted.resource_claim_name is not None:
            return wanted.resource_claim_name
        return self.status_names.get(wanted.name)

    def names(self) -> Iterator[str]:
        """Yield the names of all claims that are known."""
        return filter(None, map(self.name_of, self.wanted))


def of_pod(pod: Pod) -> Consumer:
    """Return a pod as a consumer of claims."""
    statuses = pod.status.resource_claim_statuses
    return _consumer(PODS, pod, pod.spec.resource_claims, statuses)


def of_group(group: PodGroup) -> Consumer:
    """Return a group of pods as a consumer of claims."""
    spec = msgspec.json.decode(group.spec, type=_GroupSpec)
    status = msgspec.json.decode(group.status, type=_GroupStatus)
    statuses = status.resource_claim_statuses
    return _consumer(POD_GROUPS, group, spec.resource_claims, statuses)


def _consumer(
    resource: AnyResource,
    obj: meta.KubeObject,
    wanted: tuple[PodResourceClaim, ...] | None,
    statuses: tuple[PodResourceClaimStatus, ...] | None,
) -> Consumer:
    return Consumer(
        resource=resource,
        metadata=obj.metadata,
        wanted=wanted or (),
        status_names={each.name: each.resource_claim_name for each in statuses or ()},
    )


def uses_claims(pod: Pod) -> bool:
    """Tell whether a pod has any claims to devices: most pods have none."""
    return bool(pod.spec.resource_claims) or bool(_extended_claim(pod))


def claim_names(pod: Pod) -> Iterator[str]:
    """Yield the known names of a pod's claims, also of that for extended resources."""
    yield from of_pod(pod).names()
    if name := _extended_claim(pod):
        yield name


def _extended_claim(pod: Pod) -> str:
    status = pod.status.extended_resource_claim_status
    return "" if status is None else status.resource_claim_name


def is_done(pod: Pod) -> bool:
    """Tell whether a pod does not need its claims: it has ended, or never starts."""
    return is_terminal(pod) or (meta.is_deleting(pod) and not pod.spec.node_name)


def group_name(pod: Pod) -> str:
    """Return the name of the group that a pod belongs to, "" for none."""
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


def shares(group: Consumer | None, wanted: PodResourceClaim) -> bool:
    """Tell whether an entry of a pod is equal to one of its group: they share it."""
    return group is not None and wanted in group.wanted


def pod_claim_name(claim: ResourceClaim) -> str | None:
    """Return the entry of its owner that a claim is for, `None` for no entry."""
    annotations = claim.metadata.annotations
    return None if annotations is None else annotations.pod_claim_name


def owner_uid(claim: ResourceClaim) -> str:
    """Return the uid of the pod or the group that a claim was created for, or ""."""
    owner = meta.controller_of(claim)
    return "" if owner is None else owner.uid


def _claim_keys(pod: Pod) -> Iterable[str]:
    return {f"{pod.metadata.namespace}/{name}" for name in claim_names(pod)}


def _template_keys(namespace: str, wanted: Iterable[PodResourceClaim]) -> Iterable[str]:
    names = {each.resource_claim_template_name for each in wanted}
    return {f"{namespace}/{name}" for name in names if name is not None}


def _templates_of_pod(pod: Pod) -> Iterable[str]:
    return _template_keys(pod.metadata.namespace, pod.spec.resource_claims or ())


def _templates_of_group(group: PodGroup) -> Iterable[str]:
    return _template_keys(group.metadata.namespace, of_group(group).wanted)


def _group_key(pod: Pod) -> Iterable[str]:
    name = group_name(pod) if pod.spec.resource_claims else ""
    return (f"{pod.metadata.namespace}/{name}",) if name else ()


def _owner_uid(claim: ResourceClaim) -> Iterable[str]:
    return (uid,) if (uid := owner_uid(claim)) else ()


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
    _templates_of_pod,
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

GROUPS_BY_TEMPLATE: Final = Index(
    "claim template",
    _templates_of_group,
    lambda old, new: old.metadata.uid == new.metadata.uid,
)
"""PodGroups by the keys of the templates that their claims come from."""
