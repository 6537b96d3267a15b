"""The admission plugins of a server: their names, order, defaults and makers.

The names are those of upstream (pkg/kubeapiserver/options/plugins.go).
"""

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controller_manager.clock import Clock
from controller_manager.devcluster.apiserver.admission import Chain, Plugin
from controller_manager.devcluster.apiserver.security import Authorizer
from controller_manager.devcluster.storage import Storage
from controller_manager.options.gates import FeatureGates

from .mutating_policies import MutatingAdmissionPolicy
from .pod_security import PodSecurity
from .pods import (
    DefaultTolerationSeconds,
    JobValidation,
    PodTopologyLabels,
    Priority,
    RuntimeClass,
    ServiceAccount,
    TaintNodesByCondition,
)
from .policies import Policies, ValidatingAdmissionPolicy
from .quotas import LimitRanger, ResourceQuota
from .resources import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
    DefaultIngressClass,
    DefaultStorageClass,
    NamespaceLifecycle,
    OwnerReferencesPermissionEnforcement,
    PersistentVolumeClaimResize,
    PodGroupProtection,
    StorageObjectInUseProtection,
)
from .webhooks import MutatingAdmissionWebhook, ValidatingAdmissionWebhook, Webhooks
from .writes import Kinds

# The names of all admission plugins of upstream, and the defaults.

ORDERED: Final = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)
"""All plugins in the order in which they see a write (AllOrderedPlugins)."""

_ABSENT: Final = frozenset(
    (
        "AlwaysAdmit",
        "AlwaysDeny",
        "AlwaysPullImages",
        "DenyServiceExternalIPs",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "ImagePolicyWebhook",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "NodeRestriction",
        "PodNodeSelector",
        "PodTolerationRestriction",
    )
)
"""Plugins that the development cluster does not have; upstream has them off."""

_OFF: Final = _ABSENT | {"OwnerReferencesPermissionEnforcement"}
ON_BY_DEFAULT: Final = frozenset(ORDERED) - _OFF
WITHOUT_ACCOUNTS: Final = ON_BY_DEFAULT - {"ServiceAccount"}
"""The default where no controller makes service accounts."""


class PluginError(ValueError):
    """The choice of plugins cannot be used; the message is one line."""


def chosen_plugins(
    enabled: Iterable[str],
    disabled: Iterable[str],
    default: Collection[str] = ON_BY_DEFAULT,
) -> frozenset[str]:
    """Return the plugins that are on: the default, changed by two flags.

    Raises PluginError for a name that upstream does not know, for a plugin that the
    development cluster lacks, and for one that is enabled and disabled.
    """
    on, off = _checked("enable", enabled), _checked("disable", disabled)
    if both := sorted(on & off):
        flags = "enable-admission-plugins and disable-admission-plugins"
        msg = f"[{' '.join(both)}] in {flags} overlapped"
        raise PluginError(msg)
    if absent := sorted(on & _ABSENT):
        msg = (
            "enable-admission-plugins: the development cluster does not have "
            f"{', '.join(absent)}"
        )
        raise PluginError(msg)
    return (frozenset(default) | on) - off


def _checked(verb: str, given: Iterable[str]) -> set[str]:
    names = {part for each in given for part in each.replace(",", " ").split()}
    if unknown := sorted(names - {*ORDERED}):
        quoted = ", ".join(f'"{name}"' for name in unknown)
        msg = f"{verb}-admission-plugins plugin {quoted} is unknown"
        raise PluginError(msg)
    return names


# The plugins that objects of the cluster configure: webhooks and policies.

_GROUP = "admissionregistration.k8s.io"


def dynamic_plugins(
    storage: Storage, kinds: Kinds, authorizer: Authorizer, rng: random.Random
) -> Mapping[str, Plugin]:
    """Return the plugins by their names.

    `kinds` returns all kinds of the server, expressions use `authorizer`, `rng`
    generates the uids of reviews.
    """
    mutating, validating = (
        Webhooks(
            f"{name}webhookconfigurations.{_GROUP}", storage, kinds, authorizer, rng
        )
        for name in ("mutating", "validating")
    )
    mutated, validated = (
        Policies(
            storage.collection(f"{name}admissionpolicies.{_GROUP}"),
            storage.collection(f"{name}admissionpolicybindings.{_GROUP}"),
            storage,
            kinds,
        )
        for name in ("mutating", "validating")
    )
    plugins: tuple[Plugin, ...] = (
        MutatingAdmissionPolicy(mutated, authorizer),
        MutatingAdmissionWebhook(mutating),
        ValidatingAdmissionPolicy(validated, authorizer),
        ValidatingAdmissionWebhook(validating),
    )
    return {each.name: each for each in plugins}


# Makes the admission plugins that a server runs.


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
    "OwnerReferencesPermissionEnforcement": lambda parts: (
        OwnerReferencesPermissionEnforcement(parts.authorizer, parts.kinds)
    ),
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
