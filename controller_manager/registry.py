"""All controllers of this build, and which of them to run.

One descriptor a controller: its upstream name and alias, the resources without
which it cannot work, and its init function, imported when it is wanted.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, cast

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.v1 import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICATION_CONTROLLERS,
    SERVICE_ACCOUNTS,
)
from controller_manager.api.resource import AnyResource
from controller_manager.runtime.context import InitFunction


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A controller as ``--controllers`` and start-up see it.

    `component` is what its events name as their source, `service_account` what
    it acts as in kube-system with ``--use-service-account-credentials``. Its
    client's rate limit is the general one times `qps_factor` and `burst_factor`.
    """

    name: str
    aliases: tuple[str, ...]
    required: tuple[AnyResource, ...]
    init: str
    component: str
    service_account: str
    disabled_by_default: bool = False
    qps_factor: int = 1
    burst_factor: int = 1

    def load(self) -> InitFunction:
        """Import and return the init function (``module:name``)."""
        module, _, function = self.init.partition(":")
        return cast("InitFunction", getattr(import_module(module), function))


DESCRIPTORS: Final = (
    Descriptor(
        name="deployment-controller",
        aliases=("deployment",),
        required=(DEPLOYMENTS, REPLICASETS, PODS),
        init="controller_manager.controllers.apps.deployment.reconciler:"
        "init_deployment_controller",
        component="deployment-controller",
        service_account="deployment-controller",
    ),
    Descriptor(
        name="garbage-collector-controller",
        aliases=("garbagecollector",),
        required=(),
        init="controller_manager.controllers.cluster.garbagecollector.controller:"
        "init_garbage_collector_controller",
        component="garbage-collector-controller",
        service_account="generic-garbage-collector",
        # Each deletion takes two requests: one to look, one to delete.
        qps_factor=2,
    ),
    Descriptor(
        name="namespace-controller",
        aliases=("namespace",),
        required=(NAMESPACES,),
        init="controller_manager.controllers.cluster.namespace.reconciler:"
        "init_namespace_controller",
        component="namespace-controller",
        service_account="namespace-controller",
        # It asks for the deletion of every resource there is, one by one.
        qps_factor=20,
        burst_factor=100,
    ),
    Descriptor(
        name="pod-garbage-collector-controller",
        aliases=("podgc",),
        required=(PODS, NODES),
        init="controller_manager.controllers.nodes.podgc.reconciler:"
        "init_pod_garbage_collector_controller",
        component="pod-garbage-collector-controller",
        service_account="pod-garbage-collector",
    ),
    Descriptor(
        name="replicaset-controller",
        aliases=("replicaset",),
        required=(REPLICASETS, PODS),
        init="controller_manager.controllers.apps.replicaset.reconciler:"
        "init_replicaset_controller",
        component="replicaset-controller",
        service_account="replicaset-controller",
    ),
    Descriptor(
        name="replicationcontroller-controller",
        aliases=("replicationcontroller",),
        required=(REPLICATION_CONTROLLERS, PODS),
        init="controller_manager.controllers.apps.replicationcontroller.reconciler:"
        "init_replicationcontroller_controller",
        component="replication-controller",
        service_account="replication-controller",
    ),
    Descriptor(
        name="root-ca-certificate-publisher-controller",
        aliases=("root-ca-cert-publisher",),
        required=(NAMESPACES, CONFIG_MAPS),
        init="controller_manager.controllers.identity.rootcapublisher.reconciler:"
        "init_root_ca_certificate_publisher_controller",
        component="root-ca-certificate-publisher-controller",
        service_account="root-ca-cert-publisher",
    ),
    Descriptor(
        name="serviceaccount-controller",
        aliases=("serviceaccount",),
        required=(NAMESPACES, SERVICE_ACCOUNTS),
        init="controller_manager.controllers.identity.serviceaccount.reconciler:"
        "init_serviceaccount_controller",
        component="serviceaccount-controller",
        service_account="service-account-controller",
    ),
    Descriptor(
        name="ttl-after-finished-controller",
        aliases=("ttl-after-finished",),
        required=(JOBS,),
        init="controller_manager.controllers.batch.ttlafterfinished.reconciler:"
        "init_ttl_after_finished_controller",
        component="ttl-after-finished-controller",
        service_account="ttl-after-finished-controller",
    ),
    Descriptor(
        name="ttl-controller",
        aliases=("ttl",),
        required=(NODES,),
        init="controller_manager.controllers.nodes.ttl.reconciler:init_ttl_controller",
        component="ttl-controller",
        service_account="ttl-controller",
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
    "horizontal-pod-autoscaler-controller": "horizontalpodautoscaling",
    "job-controller": "job",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller": "",
    "legacy-serviceaccount-token-cleaner-controller": (
        "legacy-service-account-token-cleaner"
    ),
    "node-ipam-controller": "nodeipam",
    "node-lifecycle-controller": "nodelifecycle",
    "node-route-controller": "route",
    "persistentvolume-attach-detach-controller": "attachdetach",
    "persistentvolume-binder-controller": "persistentvolume-binder",
    "persistentvolume-expander-controller": "persistentvolume-expander",
    "persistentvolume-protection-controller": "pv-protection",
    "persistentvolumeclaim-protection-controller": "pvc-protection",
    "podcertificaterequest-cleaner-controller": "",
    "podgroup-protection-controller": "",
    "resourceclaim-controller": "resource-claim-controller",
    "resourcepoolstatusrequest-controller": "",
    "resourcequota-controller": "resourcequota",
    "selinux-warning-controller": "",
    "service-cidr-controller": "",
    "service-lb-controller": "service",
    "serviceaccount-token-controller": "serviceaccount-token",
    "statefulset-controller": "statefulset",
    "storage-version-migrator-controller": "svm",
    "storageversion-garbage-collector-controller": "storage-version-gc",
    "taint-eviction-controller": "",
    "token-cleaner-controller": "tokencleaner",
    "validatingadmissionpolicy-status-controller": "",
    "volumeattributesclass-protection-controller": "",
}
"""The other controllers of kube-controller-manager 1.36 and their aliases."""


_NOT_BY_DEFAULT: Final = frozenset(
    (
        "bootstrap-signer-controller",
        "selinux-warning-controller",
        "token-cleaner-controller",
    )
)
"""What kube-controller-manager runs only if it is named in ``--controllers``."""

UPSTREAM_DEFAULTS: Final = tuple(
    sorted({*(each.name for each in DESCRIPTORS), *_ABSENT} - _NOT_BY_DEFAULT)
)
"""The names of what kube-controller-manager runs with ``--controllers=*``."""


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
