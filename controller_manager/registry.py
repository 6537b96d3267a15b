"""All controllers of this build, and which of them to run.

One descriptor a controller: its upstream name and alias, the resources without
which it cannot work, and its init function, imported when it is wanted.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, cast

from controller_manager.api.resources import (
    DEPLOYMENTS,
    PODS,
    REPLICASETS,
    AnyResource,
)
from controller_manager.runtime.context import InitFunction


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A controller as ``--controllers`` and start-up see it.

    `component` is what its events name as their source, `service_account` what
    it acts as in kube-system with ``--use-service-account-credentials``.
    """

    name: str
    aliases: tuple[str, ...]
    required: tuple[AnyResource, ...]
    init: str
    component: str
    service_account: str
    disabled_by_default: bool = False

    def load(self) -> InitFunction:
        """Import and return the init function (``module:name``)."""
        module, _, function = self.init.partition(":")
        return cast("InitFunction", getattr(import_module(module), function))


DESCRIPTORS: Final = (
    Descriptor(
        name="deployment-controller",
        aliases=("deployment",),
        required=(DEPLOYMENTS, REPLICASETS, PODS),
        init="controller_manager.controllers.deployment.controller:"
        "init_deployment_controller",
        component="deployment-controller",
        service_account="deployment-controller",
    ),
    Descriptor(
        name="replicaset-controller",
        aliases=("replicaset",),
        required=(REPLICASETS, PODS),
        init="controller_manager.controllers.replicaset.controller:"
        "init_replicaset_controller",
        component="replicaset-controller",
        service_account="replicaset-controller",
    ),
)


_ABSENT: Final = {
    "bootstrap-signer-controller": "bootstrapsigner",
    "certificatesigningrequest-approving-controller": "csrapproving",
    "certificatesigningrequest-cleaner-controller": "csrcleaner",
    "certificatesigningrequest-signing-controller": "csrsigning",
    "cloud-node-lifecycle-controller": "cloud-node-lifecycle",
    "clusterrole-aggregation-controller": "clusterrole-aggregation",
    "cronjob-controller": "cronjob",
    "daemonset-controller": "daemonset",
    "device-taint-eviction-controller": "",
    "disruption-controller": "disruption",
    "endpoints-controller": "endpoint",
    "endpointslice-controller": "endpointslice",
    "endpointslice-mirroring-controller": "endpointslicemirroring",
    "ephemeral-volume-controller": "ephemeral-volume",
    "garbage-collector-controller": "garbagecollector",
    "horizontal-pod-autoscaler-controller": "horizontalpodautoscaling",
    "job-controller": "job",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller": "",
    "legacy-serviceaccount-token-cleaner-controller": (
        "legacy-service-account-token-cleaner"
    ),
    "namespace-controller": "namespace",
    "node-ipam-controller": "nodeipam",
    "node-lifecycle-controller": "nodelifecycle",
    "node-route-controller": "route",
    "persistentvolume-attach-detach-controller": "attachdetach",
    "persistentvolume-binder-controller": "persistentvolume-binder",
    "persistentvolume-expander-controller": "persistentvolume-expander",
    "persistentvolume-protection-controller": "pv-protection",
    "persistentvolumeclaim-protection-controller": "pvc-protection",
    "pod-garbage-collector-controller": "podgc",
    "podcertificaterequest-cleaner-controller": "",
    "podgroup-protection-controller": "",
    "replicationcontroller-controller": "replicationcontroller",
    "resourceclaim-controller": "resource-claim-controller",
    "resourcepoolstatusrequest-controller": "",
    "resourcequota-controller": "resourcequota",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "selinux-warning-controller": "",
    "service-cidr-controller": "",
    "service-lb-controller": "service",
    "serviceaccount-controller": "serviceaccount",
    "serviceaccount-token-controller": "serviceaccount-token",
    "statefulset-controller": "statefulset",
    "storage-version-migrator-controller": "svm",
    "storageversion-garbage-collector-controller": "storage-version-gc",
    "taint-eviction-controller": "",
    "token-cleaner-controller": "tokencleaner",
    "ttl-after-finished-controller": "ttl-after-finished",
    "ttl-controller": "ttl",
    "validatingadmissionpolicy-status-controller": "",
    "volumeattributesclass-protection-controller": "",
}
"""The other controllers of kube-controller-manager 1.36 and their aliases."""


class UnknownControllerError(ValueError):
    """A name in ``--controllers`` that no controller has."""


def known_names(descriptors: Sequence[Descriptor] = DESCRIPTORS) -> list[str]:
    """Return the names, sorted, without aliases."""
    return sorted(descriptor.name for descriptor in descriptors)


def check_selection(
    selection: Iterable[str], descriptors: Sequence[Descriptor] = DESCRIPTORS
) -> tuple[list[str], list[str]]:
    """Return problems and warnings about the entries of ``--controllers``.

    A name that no controller has is a problem. One that kube-controller-manager
    has and this build has not is worth a warning, unless it is switched off.
    """
    here = {
        name: descriptor.name
        for descriptor in descriptors
        for name in (descriptor.name, *descriptor.aliases)
    }
    elsewhere = {alias or name: name for name, alias in _ABSENT.items()}
    elsewhere |= {name: name for name in _ABSENT}
    problems: list[str] = []
    warnings: list[str] = []
    for entry in selection:
        name = entry.removeprefix("-")
        if name == "*" or name in here:
            continue
        if name in elsewhere:
            if not entry.startswith("-"):
                warnings.append(f"{name} is not in this build, it is not run")
            continue
        # An alias may be what was meant, but the name is what to write. A name
        # that this build has not must be much like it to be worth mentioning.
        meant = {
            names[each]: None
            for names, cutoff in ((here, 0.5), (elsewhere, 0.8))
            for each in difflib.get_close_matches(
                name, sorted(names), n=3, cutoff=cutoff
            )
        }
        hint = ", ".join(meant or known_names(descriptors))
        problems.append(f'"{name}" is not in the list of known controllers: try {hint}')
    return problems, warnings


def select(
    selection: Iterable[str], descriptors: Sequence[Descriptor] = DESCRIPTORS
) -> list[Descriptor]:
    """Return the controllers that ``--controllers`` asks for.

    ``name`` enables and ``-name`` disables one, by name or alias, and the
    first of them counts; ``*`` enables all others that are on by default.
    Raises UnknownControllerError for other words.
    """
    entries = tuple(selection)
    problems, _ = check_selection(entries, descriptors)
    if problems:
        raise UnknownControllerError("; ".join(problems))
    return [each for each in descriptors if _is_enabled(each, entries)]


def _is_enabled(descriptor: Descriptor, entries: tuple[str, ...]) -> bool:
    names = (descriptor.name, *descriptor.aliases)
    for entry in entries:
        if entry.removeprefix("-") in names:
            return not entry.startswith("-")
    return "*" in entries and not descriptor.disabled_by_default
