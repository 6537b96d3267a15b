"""Makes the admission plugins that a server runs."""

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controller_manager.clock import Clock
from controller_manager.devcluster.server.rest.admission import Chain, Plugin
from controller_manager.devcluster.server.security.authorization import Authorizer
from controller_manager.devcluster.server.storage.storage import Storage
from controller_manager.options.gates import FeatureGates

from .always import AlwaysAdmit, AlwaysDeny, AlwaysPullImages
from .certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
)
from .claim_resize import PersistentVolumeClaimResize
from .default_ingress_class import DefaultIngressClass
from .default_storage_class import DefaultStorageClass
from .default_toleration_seconds import DefaultTolerationSeconds
from .deny_service_external_ips import DenyServiceExternalIPs
from .extended_resource_toleration import ExtendedResourceToleration
from .hard_anti_affinity import LimitPodHardAntiAffinityTopology
from .job_validation import JobValidation
from .limit_ranger import LimitRanger
from .matching import Kinds
from .namespace_exists import NamespaceExists
from .namespace_lifecycle import NamespaceLifecycle
from .owner_references import OwnerReferencesPermissionEnforcement
from .plugins import ORDERED
from .pod_security.plugin import PodSecurity
from .pod_topology_labels import PodTopologyLabels
from .priority import Priority
from .protection import PodGroupProtection, StorageObjectInUseProtection
from .resource_quota import ResourceQuota
from .runtime_class import RuntimeClass
from .service_account import ServiceAccount
from .taint_nodes_by_condition import TaintNodesByCondition


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a server that plugins need."""

    storage: Storage
    clock: Clock
    rng: random.Random
    authorizer: Authorizer
    kinds: Kinds
    features: FeatureGates


_Make = Callable[[Parts], Plugin]

_MAKERS: Final[Mapping[str, _Make]] = {
    "AlwaysAdmit": lambda _: AlwaysAdmit(),
    "AlwaysDeny": lambda _: AlwaysDeny(),
    "AlwaysPullImages": lambda _: AlwaysPullImages(),
    "DenyServiceExternalIPs": lambda _: DenyServiceExternalIPs(),
    "ExtendedResourceToleration": lambda _: ExtendedResourceToleration(),
    "LimitPodHardAntiAffinityTopology": lambda _: LimitPodHardAntiAffinityTopology(),
    "OwnerReferencesPermissionEnforcement": lambda parts: (
        OwnerReferencesPermissionEnforcement(parts.authorizer, parts.kinds)
    ),
    "NamespaceExists": lambda parts: NamespaceExists(parts.storage),
    "NamespaceLifecycle": lambda parts: NamespaceLifecycle(parts.storage),
    "LimitRanger": lambda parts: LimitRanger(parts.storage),
    "ServiceAccount": lambda parts: ServiceAccount(parts.storage, parts.rng),
    "TaintNodesByCondition": lambda _: TaintNodesByCondition(),
    "PodSecurity": lambda parts: PodSecurity(parts.storage),
    "Priority": lambda parts: Priority(parts.storage),
    "DefaultTolerationSeconds": lambda _: DefaultTolerationSeconds(),
    "DefaultStorageClass": lambda parts: DefaultStorageClass(parts.storage),
    "StorageObjectInUseProtection": lambda _: StorageObjectInUseProtection(),
    "PodGroupProtection": lambda _: PodGroupProtection(),
    "PersistentVolumeClaimResize": lambda parts: PersistentVolumeClaimResize(
        parts.storage
    ),
    "RuntimeClass": lambda parts: RuntimeClass(parts.storage),
    "CertificateApproval": lambda parts: CertificateApproval(parts.authorizer),
    "CertificateSigning": lambda parts: CertificateSigning(parts.authorizer),
    "ClusterTrustBundleAttest": lambda parts: ClusterTrustBundleAttest(
        parts.authorizer
    ),
    "CertificateSubjectRestriction": lambda _: CertificateSubjectRestriction(),
    "DefaultIngressClass": lambda parts: DefaultIngressClass(parts.storage),
    "PodTopologyLabels": lambda parts: PodTopologyLabels(parts.storage),
    "JobValidation": lambda parts: JobValidation(parts.storage, parts.features),
    "ResourceQuota": lambda parts: ResourceQuota(
        parts.storage, parts.clock, parts.features
    ),
}


def build_chain(
    chosen: Collection[str],
    parts: Parts,
    others: Mapping[str, Plugin] | None = None,
    first: Iterable[Plugin] = (),
) -> Chain:
    """Return the chain of the chosen plugins that are built, in upstream's order.

    `others` are more plugins by name. The plugins of `first` see each write before all
    others, and cannot be disabled.
    """
    given = others or {}
    plugins = [*first]
    for name in ORDERED:
        if name in chosen and name in given:
            plugins.append(given[name])
        elif name in chosen and name in _MAKERS:
            plugins.append(_MAKERS[name](parts))
    return Chain(plugins)
