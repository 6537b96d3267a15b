"""The admission plugins of a server: their names, order, defaults and makers.

The names are those of upstream (pkg/kubeapiserver/options/plugins.go).
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from controller_manager.devcluster.apiserver.admission import Chain, Plugin

from . import pods, quotas, resources
from .mutating_policies import MutatingAdmissionPolicy
from .pod_security import PodSecurity
from .policies import Policies, ValidatingAdmissionPolicy
from .webhooks import MutatingAdmissionWebhook, ValidatingAdmissionWebhook, Webhooks
from .writes import Parts

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
        raise PluginError(f"[{' '.join(both)}] in {flags} overlapped")
    if absent := sorted(on & _ABSENT):
        raise PluginError(
            "enable-admission-plugins: the development cluster does not have "
            f"{', '.join(absent)}"
        )
    return (frozenset(default) | on) - off


def _checked(verb: str, given: Iterable[str]) -> set[str]:
    names = {part for each in given for part in each.replace(",", " ").split()}
    if unknown := sorted(names - {*ORDERED}):
        quoted = ", ".join(f'"{name}"' for name in unknown)
        raise PluginError(f"{verb}-admission-plugins plugin {quoted} is unknown")
    return names


# The plugins that objects of the cluster configure: webhooks and policies.

_GROUP = "admissionregistration.k8s.io"


def _configured_by_objects(parts: Parts) -> Iterator[Plugin]:
    storage, kinds, authorizer = parts.storage, parts.kinds, parts.authorizer
    webhooks = f"webhookconfigurations.{_GROUP}"
    mutating, validating = (
        Webhooks(f"{name}{webhooks}", storage, kinds, authorizer, parts.rng)
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
    yield MutatingAdmissionPolicy(mutated, authorizer)
    yield MutatingAdmissionWebhook(mutating)
    yield ValidatingAdmissionPolicy(validated, authorizer)
    yield ValidatingAdmissionWebhook(validating)


_BUILT_IN: Final = {
    each.name: each
    for each in (*pods.PLUGINS, *quotas.PLUGINS, *resources.PLUGINS, PodSecurity)
}


def build_chain(
    chosen: Collection[str], parts: Parts, first: Iterable[Plugin] = ()
) -> Chain:
    """Return the chain of the chosen plugins, in upstream's order.

    The plugins of `first` see each write before all others, and cannot be disabled.
    """
    made = {each.name: each for each in _configured_by_objects(parts)}
    made |= {name: each(parts) for name, each in _BUILT_IN.items() if name in chosen}
    ordered = (made[each] for each in ORDERED if each in chosen and each in made)
    return Chain([*first, *ordered])
