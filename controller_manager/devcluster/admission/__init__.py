"""The admission plugins of a server: their names, order, defaults and makers.

A plugin changes or refuses the object of a write; the modules have them by what they
look at. The names are those of upstream (pkg/kubeapiserver/options/plugins.go).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controller_manager.devcluster.apiserver.admission import Chain, Plugin

from . import pods, quotas, resources
from .mutating_policies import MutatingAdmissionPolicy
from .pod_security import PodSecurity
from .policies import ValidatingAdmissionPolicy
from .webhooks import MutatingAdmissionWebhook, ValidatingAdmissionWebhook
from .writes import BuiltInPlugin, Parts

# The names of all admission plugins of upstream, and the defaults.

ORDERED: Final = (
    *("AlwaysAdmit", "NamespaceAutoProvision", "NamespaceLifecycle", "NamespaceExists"),
    *("LimitPodHardAntiAffinityTopology", "LimitRanger", "ServiceAccount"),
    *("NodeRestriction", "TaintNodesByCondition", "AlwaysPullImages"),
    *("ImagePolicyWebhook", "PodSecurity", "PodNodeSelector", "Priority"),
    *("DefaultTolerationSeconds", "PodTolerationRestriction", "EventRateLimit"),
    *("ExtendedResourceToleration", "DefaultStorageClass"),
    *("StorageObjectInUseProtection", "PodGroupProtection"),
    *("OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize"),
    *("RuntimeClass", "CertificateApproval", "CertificateSigning"),
    *("ClusterTrustBundleAttest", "CertificateSubjectRestriction"),
    *("DefaultIngressClass", "DenyServiceExternalIPs", "PodTopologyLabels"),
    *("PodGroupWorkloadExists", "NodeDeclaredFeatureValidator", "JobValidation"),
    *("PodResizeValidator", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota"),
    "AlwaysDeny",
)
"""All plugins in the order in which they see a write (AllOrderedPlugins)."""

_ABSENT: Final = frozenset(
    (
        *("AlwaysAdmit", "AlwaysDeny", "AlwaysPullImages", "DenyServiceExternalIPs"),
        *("EventRateLimit", "ExtendedResourceToleration", "ImagePolicyWebhook"),
        *("LimitPodHardAntiAffinityTopology", "NamespaceAutoProvision"),
        *("NamespaceExists", "NodeRestriction", "PodNodeSelector"),
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


_PLUGINS: Final[Mapping[str, type[BuiltInPlugin]]] = {
    each.name: each
    for each in (
        *pods.PLUGINS,
        *quotas.PLUGINS,
        *resources.PLUGINS,
        MutatingAdmissionPolicy,
        MutatingAdmissionWebhook,
        PodSecurity,
        ValidatingAdmissionPolicy,
        ValidatingAdmissionWebhook,
    )
}


def build_chain(
    chosen: Collection[str], parts: Parts, first: Iterable[Plugin] = ()
) -> Chain:
    """Return the chain of the chosen plugins, in upstream's order.

    The plugins of `first` see each write before all others, and cannot be disabled.
    """
    made = (
        _PLUGINS[each](parts) for each in ORDERED if each in chosen and each in _PLUGINS
    )
    return Chain([*first, *made])
