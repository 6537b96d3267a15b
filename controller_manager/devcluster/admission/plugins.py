"""The names of all admission plugins of upstream, and the defaults.

Upstream: pkg/kubeapiserver/options/plugins.go and k8s.io/apiserver/pkg/server/options
/admission.go, version 1.36.
"""

from collections.abc import Collection, Iterable
from typing import Final

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

_OFF: Final = frozenset(
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
        "OwnerReferencesPermissionEnforcement",
        "PodNodeSelector",
        "PodTolerationRestriction",
    )
)
ON_BY_DEFAULT: Final = frozenset(ORDERED) - _OFF
WITHOUT_ACCOUNTS: Final = ON_BY_DEFAULT - {"ServiceAccount"}
"""The default where no controller makes service accounts."""

_ABSENT: Final = frozenset(
    (
        "EventRateLimit",
        "ImagePolicyWebhook",
        "NamespaceAutoProvision",
        "NodeRestriction",
        "PodNodeSelector",
        "PodTolerationRestriction",
    )
)
"""Plugins that the development cluster does not have; they are off by default."""


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
