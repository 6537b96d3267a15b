"""The table of all flags, in the order of upstream's help.

Names, types and defaults are kube-controller-manager 1.36's. `path` is where
the value stands in the configuration file and in /configz; what upstream's
configuration does not hold stands in a section of its own there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from controller_manager.options.gates import describe

FlagType = Literal[
    "bool",
    "int",
    "int32",
    "int32Slice",
    "float",
    "float32",
    "duration",
    "string",
    "strings",
    "ip",
    "namedCertKey",
    "quantity",
    "Level",
    "gates",
    "pairs",
]

DEFAULT_SECURE_PORT: Final = 10257

_LISTS: Final = frozenset(("strings", "int32Slice", "namedCertKey", "gates", "pairs"))


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: `default` as a user would write it, `None` for an empty one.

    `inert` says why the flag is taken without an effect, empty if it has one.
    """

    name: str
    type: FlagType
    default: str | None
    help: str
    path: str = ""
    section: str = ""
    value_name: str = ""
    short: str = ""
    inert: str = ""

    @property
    def is_list(self) -> bool:
        """Whether giving it again adds to it rather than replacing it."""
        return self.type in _LISTS

    @property
    def controller(self) -> str:
        """The controller whose flag this is, empty for a general one."""
        name = self.section.lower()
        return name if name.endswith("-controller") else ""


_INITIALISMS: Final = {
    "api": "API",
    "ca": "CA",
    "http2": "HTTP2",
    "json": "JSON",
    "qps": "QPS",
    "sni": "SNI",
    "tls": "TLS",
    "ttl": "TTL",
    "uid": "UID",
}


def _section(title: str, *flags: Flag) -> tuple[Flag, ...]:
    """Put flags into a section; one without a path gets one after its name."""
    prefix = "".join(word.capitalize() for word in title.replace("-", " ").split())
    return tuple(
        replace(
            flag,
            section=title,
            path=flag.path or f"{prefix}.{_field_name(flag.name)}",
        )
        for flag in flags
    )


def _field_name(flag: str) -> str:
    return "".join(
        _INITIALISMS.get(word, word.capitalize()) for word in flag.split("-")
    )


_CLOUD: Final = "this build has no cloud provider"
_NODE_CIDRS: Final = "this build has no node IPAM controller"
_GO: Final = "it concerns Go's runtime"
_NO_TOKENS: Final = "this build has no serviceaccount-token-controller"
_JSON_ONLY: Final = "requests are always JSON"
_VERSIONS: Final = "this build behaves as one version"
_BUFFERS: Final = "lines are written at once"
_HIDDEN: Final = "this build hides no metrics"
_MIGRATION: Final = "there is no cloud-controller-manager to migrate from"

_DEBUGGING: Final = _section(
    "Debugging",
    Flag(
        "contention-profiling",
        "bool",
        "false",
        "Profile contention of locks, if profiling is on.",
        "Generic.Debugging.enableContentionProfiling",
        inert=_GO,
    ),
    Flag(
        "profiling",
        "bool",
        "true",
        "Serve /debug/pprof/ and its like: tasks, a CPU profile, memory.",
        "Generic.Debugging.enableProfiling",
    ),
)

_LEADER_MIGRATION: Final = _section(
    "Leader-migration",
    Flag(
        "enable-leader-migration",
        "bool",
        "false",
        "Whether to migrate controllers' leadership between managers.",
        "Generic.LeaderMigrationEnabled",
        inert=_MIGRATION,
    ),
    Flag(
        "leader-migration-config",
        "string",
        None,
        "Path of the configuration of leader migration.",
        inert=_MIGRATION,
    ),
)

_GENERIC: Final = _section(
    "Generic",
    Flag(
        "allocate-node-cidrs",
        "bool",
        "false",
        "Whether to allocate pod CIDRs to nodes.",
        "KubeCloudShared.AllocateNodeCIDRs",
        inert=_NODE_CIDRS,
    ),
    Flag(
        "cidr-allocator-type",
        "string",
        "RangeAllocator",
        "Type of the allocator of pod CIDRs.",
        "KubeCloudShared.CIDRAllocatorType",
        inert=_NODE_CIDRS,
    ),
    Flag(
        "cloud-config",
        "string",
        None,
        "Path of the cloud provider's configuration file.",
        "KubeCloudShared.CloudProvider.CloudConfigFile",
        inert=_CLOUD,
    ),
    Flag(
        "cloud-provider",
        "string",
        None,
        "The provider of cloud services; empty for none.",
        "KubeCloudShared.CloudProvider.Name",
        inert=_CLOUD,
    ),
    Flag(
        "cluster-cidr",
        "string",
        None,
        "CIDR range of the cluster's pods.",
        "KubeCloudShared.ClusterCIDR",
        inert=_NODE_CIDRS,
    ),
    Flag(
        "cluster-name",
        "string",
        "kubernetes",
        "Prefix of the names of the cluster's cloud resources.",
        "KubeCloudShared.ClusterName",
        inert=_CLOUD,
    ),
    Flag(
        "config",
        "string",
        None,
        "A YAML file with the same options, in the shape that /configz prints; "
        "flags win over it. Not one of upstream's flags.",
        value_name="file",
    ),
    Flag(
        "configure-cloud-routes",
        "bool",
        "true",
        "Whether to configure routes at the cloud provider.",
        "KubeCloudShared.ConfigureCloudRoutes",
        inert=_CLOUD,
    ),
    Flag(
        "controller-kube-api-burst",
        "pairs",
        None,
        "Burst of one controller, instead of --kube-api-burst; may be given more "
        "than once. Not one of upstream's flags.",
        value_name="controller=int32",
    ),
    Flag(
        "controller-kube-api-qps",
        "pairs",
        None,
        "QPS of one controller, instead of --kube-api-qps; may be given more than "
        "once. Not one of upstream's flags.",
        value_name="controller=float",
    ),
    Flag(
        "controller-shutdown-timeout",
        "duration",
        "10s",
        "How long syncs in progress may go on after a signal to stop.",
    ),
    Flag(
        "controller-start-interval",
        "duration",
        "0s",
        "Interval between starting controllers; each wait is lengthened at random "
        "by up to as much again.",
        "Generic.ControllerStartInterval",
    ),
    Flag(
        "controllers",
        "strings",
        "*",
        "A list of controllers to enable. '*' enables all on-by-default controllers, "
        "'foo' enables the controller named 'foo', '-foo' disables the controller "
        "named 'foo'.",
        "Generic.Controllers",
    ),
    Flag(
        "emulated-version",
        "strings",
        None,
        "Versions of components to emulate.",
        inert=_VERSIONS,
    ),
    Flag(
        "external-cloud-volume-plugin",
        "string",
        None,
        "The volume plugin to use when the cloud provider is external.",
        "KubeCloudShared.ExternalCloudVolumePlugin",
        inert=_CLOUD,
    ),
    Flag(
        "feature-gates",
        "gates",
        None,
        "A set of key=value pairs that switch features on or off. Options are:\n"
        f"{describe()}",
        "FeatureGates",
        value_name="key=true|false,...",
    ),
    Flag(
        "kube-api-burst",
        "int32",
        "30",
        "Burst to use while talking with the Kubernetes API server, per controller.",
        "Generic.ClientConnection.burst",
    ),
    Flag(
        "kube-api-content-type",
        "string",
        "application/vnd.kubernetes.protobuf",
        "Content type of requests to the API server.",
        "Generic.ClientConnection.contentType",
        inert=_JSON_ONLY,
    ),
    Flag(
        "kube-api-qps",
        "float32",
        "20",
        "QPS to use while talking with the Kubernetes API server, per controller.",
        "Generic.ClientConnection.qps",
        value_name="float",
    ),
    Flag(
        "kube-api-write-timeout",
        "duration",
        "1m10s",
        "How long a write may wait for its answer. The default is longer than the "
        "API server's own limit of a minute. Not one of upstream's flags.",
    ),
    Flag(
        "leader-elect",
        "bool",
        "true",
        "Gain leadership before acting. Needed where several managers run.",
        "Generic.LeaderElection.leaderElect",
    ),
    Flag(
        "leader-elect-lease-duration",
        "duration",
        "15s",
        "How long others wait, after the leader's last renewal that they saw, "
        "before they take over.",
        "Generic.LeaderElection.leaseDuration",
    ),
    Flag(
        "leader-elect-renew-deadline",
        "duration",
        "10s",
        "How long after its last renewal a leader stops leading, if it cannot "
        "renew. Must be less than the lease duration.",
        "Generic.LeaderElection.renewDeadline",
    ),
    Flag(
        "leader-elect-resource-lock",
        "string",
        "leases",
        'The type of object to hold the lock: "leases".',
        "Generic.LeaderElection.resourceLock",
    ),
    Flag(
        "leader-elect-resource-name",
        "string",
        "kube-controller-manager",
        "The name of the lease.",
        "Generic.LeaderElection.resourceName",
    ),
    Flag(
        "leader-elect-resource-namespace",
        "string",
        "kube-system",
        "The namespace of the lease.",
        "Generic.LeaderElection.resourceNamespace",
    ),
    Flag(
        "leader-elect-retry-period",
        "duration",
        "2s",
        "How long to wait between tries to take or renew the lease.",
        "Generic.LeaderElection.retryPeriod",
    ),
    Flag(
        "min-compatibility-version",
        "strings",
        None,
        "The oldest versions of control planes to be compatible with.",
        inert=_VERSIONS,
    ),
    Flag(
        "min-resync-period",
        "duration",
        "12h0m0s",
        "The resync period of informers is random between this and twice this.",
        "Generic.MinResyncPeriod",
    ),
    Flag(
        "node-monitor-period",
        "duration",
        "5s",
        "How often to look at the status of nodes.",
        "KubeCloudShared.NodeMonitorPeriod",
        inert="this build has no node lifecycle controller",
    ),
    Flag(
        "route-reconciliation-period",
        "duration",
        "10s",
        "How often to reconcile the routes of nodes.",
        "KubeCloudShared.RouteReconciliationPeriod",
        inert=_CLOUD,
    ),
    Flag(
        "use-service-account-credentials",
        "bool",
        "false",
        "Run each controller as a service account of its own in kube-system.",
        "KubeCloudShared.UseServiceAccountCredentials",
    ),
    Flag(
        "wait-for-apiserver-timeout",
        "duration",
        "0s",
        "How long to wait for the API server to be healthy at start-up; 0 waits "
        "for ever. Not one of upstream's flags.",
    ),
)

_SERVICE_LB: Final = _section(
    "Service-lb-controller",
    Flag(
        "concurrent-service-syncs",
        "int32",
        "1",
        "The number of services to sync concurrently.",
        "ServiceController.ConcurrentServiceSyncs",
    ),
)

_SERVING: Final = _section(
    "Secure serving",
    Flag(
        "bind-address",
        "ip",
        "0.0.0.0",  # noqa: S104 - upstream's default
        "The IP address to listen on for --secure-port. 0.0.0.0 and :: stand for "
        "all interfaces.",
    ),
    Flag(
        "cert-dir",
        "string",
        None,
        "The directory of the certificates. A self-signed one is put there, as "
        "kube-controller-manager.crt and .key, when --tls-cert-file is not given; "
        "without a directory it is kept in memory only.",
    ),
    Flag(
        "disable-http2-serving",
        "bool",
        "false",
        "Serve HTTP/1.1 only, which this build always does.",
    ),
    Flag(
        "http2-max-streams-per-connection",
        "int",
        "0",
        "The limit of streams in an HTTP/2 connection.",
        inert="HTTP/1.1 is served only",
    ),
    Flag(
        "permit-address-sharing",
        "bool",
        "false",
        "Set SO_REUSEADDR, so that the address of a connection that is closing can "
        "be bound to.",
    ),
    Flag(
        "permit-port-sharing",
        "bool",
        "false",
        "Set SO_REUSEPORT, so that several managers can bind to one port.",
    ),
    Flag(
        "secure-port",
        "int",
        str(DEFAULT_SECURE_PORT),
        "The port on which to serve HTTPS with authentication and authorization. "
        "If 0, nothing is served.",
    ),
    Flag(
        "tls-cert-file",
        "string",
        None,
        "The file with the certificate for HTTPS, followed by those of its "
        "authorities. Read again when it changes.",
    ),
    Flag(
        "tls-cipher-suites",
        "strings",
        None,
        "The cipher suites to offer for TLS 1.2, by their IANA names. Those of "
        "TLS 1.3 cannot be chosen.",
    ),
    Flag(
        "tls-curve-preferences",
        "int32Slice",
        None,
        "The numbers of the curves to offer: 23, 24, 25 (P-256, P-384, P-521), 29 "
        "(X25519). One can be chosen; of several, OpenSSL takes its own choice.",
        value_name="int32Slice",
    ),
    Flag(
        "tls-min-version",
        "string",
        None,
        "The lowest version of TLS: VersionTLS12 (the default) or VersionTLS13.",
    ),
    Flag(
        "tls-private-key-file",
        "string",
        None,
        "The file with the key of --tls-cert-file.",
    ),
    Flag(
        "tls-sni-cert-key",
        "namedCertKey",
        None,
        "A certificate and its key, and optionally the names that it is for, such "
        "as *.example.com. May be given more than once.",
        value_name="certfile,keyfile[:name,...]",
    ),
)

_AUTHENTICATION: Final = _section(
    "Authentication",
    Flag(
        "authentication-kubeconfig",
        "string",
        None,
        "A kubeconfig for creating tokenreviews and for reading the client "
        "authorities of the cluster. Without it, and outside a pod, bearer tokens "
        "identify nobody.",
    ),
    Flag(
        "authentication-skip-lookup",
        "bool",
        "false",
        "Do not read missing settings of authentication from the cluster.",
    ),
    Flag(
        "authentication-token-webhook-cache-ttl",
        "duration",
        "10s",
        "How long to remember whose a token is.",
    ),
    Flag(
        "authentication-tolerate-lookup-failure",
        "bool",
        "false",
        "Go on if settings of authentication cannot be read from the cluster; "
        "client certificates then identify nobody.",
    ),
    Flag(
        "client-ca-file",
        "string",
        None,
        "A request with a client certificate signed by an authority in this file is "
        "from the user of the certificate's common name.",
    ),
    Flag(
        "requestheader-allowed-names",
        "strings",
        None,
        "Common names of client certificates that may name users in headers; "
        "without any, all that --requestheader-client-ca-file signed.",
    ),
    Flag(
        "requestheader-client-ca-file",
        "string",
        None,
        "The authorities of client certificates that are needed to name users in "
        "headers.",
    ),
    Flag(
        "requestheader-extra-headers-prefix",
        "strings",
        "x-remote-extra-",
        "Prefixes of headers with further attributes of the user.",
    ),
    Flag(
        "requestheader-group-headers",
        "strings",
        "x-remote-group",
        "Headers with the groups of the user.",
    ),
    Flag(
        "requestheader-uid-headers",
        "strings",
        None,
        "Headers with the uid of the user.",
    ),
    Flag(
        "requestheader-username-headers",
        "strings",
        "x-remote-user",
        "Headers with the name of the user.",
    ),
)

_AUTHORIZATION: Final = _section(
    "Authorization",
    Flag(
        "authorization-always-allow-paths",
        "strings",
        "/healthz,/readyz,/livez",
        "Paths that everybody may read, without asking the API server; a * at the "
        "end stands for anything.",
    ),
    Flag(
        "authorization-kubeconfig",
        "string",
        None,
        "A kubeconfig for creating subjectaccessreviews. Without it, and outside a "
        "pod, only the group system:masters and --authorization-always-allow-paths "
        "are allowed.",
    ),
    Flag(
        "authorization-webhook-cache-authorized-ttl",
        "duration",
        "10s",
        "How long to remember what is allowed.",
    ),
    Flag(
        "authorization-webhook-cache-unauthorized-ttl",
        "duration",
        "10s",
        "How long to remember what is not allowed.",
    ),
)

_ATTACH_DETACH: Final = _section(
    "Persistentvolume-attach-detach-controller",
    Flag(
        "attach-detach-reconcile-sync-period",
        "duration",
        "1m0s",
        "How often to reconcile the attachment of volumes.",
        "AttachDetachController.ReconcilerSyncLoopPeriod",
    ),
    Flag(
        "disable-attach-detach-reconcile-sync",
        "bool",
        "false",
        "Do not reconcile the attachment of volumes.",
        "AttachDetachController.DisableAttachDetachReconcilerSync",
    ),
    Flag(
        "disable-force-detach-on-timeout",
        "bool",
        "false",
        "Do not detach by force volumes that could not be unmounted in time.",
        "AttachDetachController.disableForceDetachOnTimeout",
    ),
)


def _signer(name: str, field: str, what: str) -> tuple[Flag, Flag]:
    return (
        Flag(
            f"cluster-signing-{name}-cert-file",
            "string",
            None,
            f"The authority that signs {what}.",
            f"CSRSigningController.{field}.CertFile",
        ),
        Flag(
            f"cluster-signing-{name}-key-file",
            "string",
            None,
            f"The key of the authority that signs {what}.",
            f"CSRSigningController.{field}.KeyFile",
        ),
    )


_SIGNING: Final = _section(
    "Certificatesigningrequest-signing-controller",
    Flag(
        "cluster-signing-cert-file",
        "string",
        None,
        "The authority that signs all certificates.",
        "CSRSigningController.ClusterSigningCertFile",
    ),
    Flag(
        "cluster-signing-duration",
        "duration",
        "8760h0m0s",
        "The longest validity of signed certificates.",
        "CSRSigningController.ClusterSigningDuration",
    ),
    Flag(
        "cluster-signing-key-file",
        "string",
        None,
        "The key of the authority that signs all certificates.",
        "CSRSigningController.ClusterSigningKeyFile",
    ),
    *_signer(
        "kube-apiserver-client",
        "KubeAPIServerClientSignerConfiguration",
        "for kubernetes.io/kube-apiserver-client",
    ),
    *_signer(
        "kubelet-client",
        "KubeletClientSignerConfiguration",
        "for kubernetes.io/kube-apiserver-client-kubelet",
    ),
    *_signer(
        "kubelet-serving",
        "KubeletServingSignerConfiguration",
        "for kubernetes.io/kubelet-serving",
    ),
    *_signer(
        "legacy-unknown",
        "LegacyUnknownSignerConfiguration",
        "for kubernetes.io/legacy-unknown",
    ),
)


def _syncs(section: str, flag: str, default: int, path: str, what: str) -> Flag:
    """Return the flag for how many objects a controller syncs at a time."""
    (made,) = _section(
        section,
        Flag(
            flag,
            "int32",
            str(default),
            f"The number of {what} that are allowed to sync concurrently. Larger "
            "number = more responsive, but more CPU (and network) load.",
            path,
        ),
    )
    return made


_CONTROLLERS: Final = (
    _syncs(
        "Deployment-controller",
        "concurrent-deployment-syncs",
        5,
        "DeploymentController.ConcurrentDeploymentSyncs",
        "deployments",
    ),
    _syncs(
        "Device-taint-eviction-controller",
        "concurrent-device-taint-eviction-syncs",
        8,
        "DeviceTaintEvictionController.ConcurrentSyncs",
        "operations",
    ),
    _syncs(
        "Resourceclaim-controller",
        "concurrent-resourceclaim-syncs",
        50,
        "ResourceClaimController.ConcurrentSyncs",
        "resource claims",
    ),
    _syncs(
        "Statefulset-controller",
        "concurrent-statefulset-syncs",
        5,
        "StatefulSetController.ConcurrentStatefulSetSyncs",
        "stateful sets",
    ),
    _syncs(
        "Daemonset-controller",
        "concurrent-daemonset-syncs",
        2,
        "DaemonSetController.ConcurrentDaemonSetSyncs",
        "daemon sets",
    ),
    _syncs(
        "Endpoints-controller",
        "concurrent-endpoint-syncs",
        5,
        "EndpointController.ConcurrentEndpointSyncs",
        "endpoints",
    ),
    *_section(
        "Endpoints-controller",
        Flag(
            "endpoint-updates-batch-period",
            "duration",
            "0s",
            "How long to collect changes of pods before endpoints are updated.",
            "EndpointController.EndpointUpdatesBatchPeriod",
        ),
    ),
    _syncs(
        "Endpointslice-controller",
        "concurrent-service-endpoint-syncs",
        5,
        "EndpointSliceController.ConcurrentServiceEndpointSyncs",
        "services' endpoint slices",
    ),
    *_section(
        "Endpointslice-controller",
        Flag(
            "endpointslice-updates-batch-period",
            "duration",
            "0s",
            "How long to collect changes of pods before slices are updated.",
            "EndpointSliceController.EndpointUpdatesBatchPeriod",
        ),
        Flag(
            "max-endpoints-per-slice",
            "int32",
            "100",
            "The largest number of endpoints in a slice.",
            "EndpointSliceController.MaxEndpointsPerSlice",
        ),
    ),
    _syncs(
        "Endpointslice-mirroring-controller",
        "mirroring-concurrent-service-endpoint-syncs",
        5,
        "EndpointSliceMirroringController.MirroringConcurrentServiceEndpointSyncs",
        "services' mirrored endpoint slices",
    ),
    *_section(
        "Endpointslice-mirroring-controller",
        Flag(
            "mirroring-endpointslice-updates-batch-period",
            "duration",
            "0s",
            "How long to collect changes before mirrored slices are updated.",
            "EndpointSliceMirroringController.MirroringEndpointUpdatesBatchPeriod",
        ),
        Flag(
            "mirroring-max-endpoints-per-subset",
            "int32",
            "1000",
            "The largest number of endpoints of a subset that are mirrored.",
            "EndpointSliceMirroringController.MirroringMaxEndpointsPerSubset",
        ),
    ),
    _syncs(
        "Ephemeral-volume-controller",
        "concurrent-ephemeralvolume-syncs",
        5,
        "EphemeralVolumeController.ConcurrentEphemeralVolumeSyncs",
        "ephemeral volumes",
    ),
    _syncs(
        "Garbage-collector-controller",
        "concurrent-gc-syncs",
        20,
        "GarbageCollectorController.ConcurrentGCSyncs",
        "garbage collector workers",
    ),
    *_section(
        "Garbage-collector-controller",
        Flag(
            "enable-garbage-collector",
            "bool",
            "true",
            "Enable the garbage collector; must agree with the API server's flag.",
            "GarbageCollectorController.EnableGarbageCollector",
        ),
    ),
    _syncs(
        "Horizontal-pod-autoscaler-controller",
        "concurrent-horizontal-pod-autoscaler-syncs",
        5,
        "HPAController.ConcurrentHorizontalPodAutoscalerSyncs",
        "horizontal pod autoscalers",
    ),
    *_section(
        "Horizontal-pod-autoscaler-controller",
        Flag(
            "horizontal-pod-autoscaler-cpu-initialization-period",
            "duration",
            "5m0s",
            "The time after a pod's start for which CPU samples may be skipped.",
            "HPAController.HorizontalPodAutoscalerCPUInitializationPeriod",
        ),
        Flag(
            "horizontal-pod-autoscaler-downscale-stabilization",
            "duration",
            "5m0s",
            "The time over which the highest recommendation counts.",
            "HPAController.HorizontalPodAutoscalerDownscaleStabilizationWindow",
        ),
        Flag(
            "horizontal-pod-autoscaler-initial-readiness-delay",
            "duration",
            "30s",
            "The time after a pod's start for which readiness is its first one.",
            "HPAController.HorizontalPodAutoscalerInitialReadinessDelay",
        ),
        Flag(
            "horizontal-pod-autoscaler-sync-period",
            "duration",
            "15s",
            "How often to sync the number of pods.",
            "HPAController.HorizontalPodAutoscalerSyncPeriod",
        ),
        Flag(
            "horizontal-pod-autoscaler-tolerance",
            "float",
            "0.1",
            "The change in the ratio of metrics from which on to scale.",
            "HPAController.HorizontalPodAutoscalerTolerance",
        ),
    ),
    _syncs(
        "Job-controller",
        "concurrent-job-syncs",
        5,
        "JobController.ConcurrentJobSyncs",
        "jobs",
    ),
    _syncs(
        "Cronjob-controller",
        "concurrent-cron-job-syncs",
        5,
        "CronJobController.ConcurrentCronJobSyncs",
        "cron jobs",
    ),
    *_section(
        "Legacy-serviceaccount-token-cleaner-controller",
        Flag(
            "legacy-service-account-token-clean-up-period",
            "duration",
            "8760h0m0s",
            "The time since the last use after which a legacy token is deleted.",
            "LegacySATokenCleaner.CleanUpPeriod",
        ),
    ),
    _syncs(
        "Namespace-controller",
        "concurrent-namespace-syncs",
        10,
        "NamespaceController.ConcurrentNamespaceSyncs",
        "namespaces",
    ),
    *_section(
        "Namespace-controller",
        Flag(
            "namespace-sync-period",
            "duration",
            "5m0s",
            "How often to sync the life cycle of namespaces.",
            "NamespaceController.NamespaceSyncPeriod",
        ),
    ),
    *_section(
        "Node-ipam-controller",
        Flag(
            "node-cidr-mask-size",
            "int32",
            "0",
            "Mask size of a node's CIDR.",
            "NodeIPAMController.NodeCIDRMaskSize",
        ),
        Flag(
            "node-cidr-mask-size-ipv4",
            "int32",
            "0",
            "Mask size of a node's IPv4 CIDR in a dual-stack cluster.",
            "NodeIPAMController.NodeCIDRMaskSizeIPv4",
        ),
        Flag(
            "node-cidr-mask-size-ipv6",
            "int32",
            "0",
            "Mask size of a node's IPv6 CIDR in a dual-stack cluster.",
            "NodeIPAMController.NodeCIDRMaskSizeIPv6",
        ),
        Flag(
            "service-cluster-ip-range",
            "string",
            None,
            "CIDR range of the cluster's services.",
            "NodeIPAMController.ServiceCIDR",
        ),
    ),
    *_section(
        "Node-lifecycle-controller",
        Flag(
            "large-cluster-size-threshold",
            "int32",
            "50",
            "The number of nodes from which on a cluster is large.",
            "NodeLifecycleController.LargeClusterSizeThreshold",
        ),
        Flag(
            "node-eviction-rate",
            "float32",
            "0.1",
            "Nodes a second whose pods are deleted when a node fails.",
            "NodeLifecycleController.NodeEvictionRate",
        ),
        Flag(
            "node-monitor-grace-period",
            "duration",
            "50s",
            "How long a node may be silent before it counts as unhealthy.",
            "NodeLifecycleController.NodeMonitorGracePeriod",
        ),
        Flag(
            "node-startup-grace-period",
            "duration",
            "1m0s",
            "How long a starting node may be silent.",
            "NodeLifecycleController.NodeStartupGracePeriod",
        ),
        Flag(
            "secondary-node-eviction-rate",
            "float32",
            "0.01",
            "Nodes a second whose pods are deleted when a zone is unhealthy.",
            "NodeLifecycleController.SecondaryNodeEvictionRate",
        ),
        Flag(
            "unhealthy-zone-threshold",
            "float32",
            "0.55",
            "The part of a zone's nodes that must be down for it to be unhealthy.",
            "NodeLifecycleController.UnhealthyZoneThreshold",
        ),
    ),
)

_RECYCLER: Final = (
    "PersistentVolumeBinderController.VolumeConfiguration"
    ".PersistentVolumeRecyclerConfiguration"
)

_VOLUMES: Final = _section(
    "Persistentvolume-binder-controller",
    Flag(
        "enable-dynamic-provisioning",
        "bool",
        "true",
        "Provision volumes dynamically.",
        "PersistentVolumeBinderController.VolumeConfiguration.EnableDynamicProvisioning",
    ),
    Flag(
        "enable-hostpath-provisioner",
        "bool",
        "false",
        "Provision volumes on the host, for tests.",
        "PersistentVolumeBinderController.VolumeConfiguration.EnableHostPathProvisioning",
    ),
    Flag(
        "flex-volume-plugin-dir",
        "string",
        "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
        "The directory of flex volume plugins.",
        "PersistentVolumeBinderController.VolumeConfiguration.FlexVolumePluginDir",
    ),
    Flag(
        "pv-recycler-increment-timeout-nfs",
        "int32",
        "30",
        "Seconds that each GiB adds to the recycling of an NFS volume.",
        f"{_RECYCLER}.IncrementTimeoutNFS",
    ),
    Flag(
        "pv-recycler-minimum-timeout-hostpath",
        "int32",
        "60",
        "Seconds that the recycling of a host path volume may take.",
        f"{_RECYCLER}.MinimumTimeoutHostPath",
    ),
    Flag(
        "pv-recycler-minimum-timeout-nfs",
        "int32",
        "300",
        "Seconds that the recycling of an NFS volume may take.",
        f"{_RECYCLER}.MinimumTimeoutNFS",
    ),
    Flag(
        "pv-recycler-pod-template-filepath-hostpath",
        "string",
        None,
        "The pod template for recycling host path volumes.",
        f"{_RECYCLER}.PodTemplateFilePathHostPath",
    ),
    Flag(
        "pv-recycler-pod-template-filepath-nfs",
        "string",
        None,
        "The pod template for recycling NFS volumes.",
        f"{_RECYCLER}.PodTemplateFilePathNFS",
    ),
    Flag(
        "pv-recycler-timeout-increment-hostpath",
        "int32",
        "30",
        "Seconds that each GiB adds to the recycling of a host path volume.",
        f"{_RECYCLER}.IncrementTimeoutHostPath",
    ),
    Flag(
        "pvclaimbinder-sync-period",
        "duration",
        "15s",
        "How often to sync volumes and claims.",
        "PersistentVolumeBinderController.PVClaimBinderSyncPeriod",
    ),
)

_MORE_CONTROLLERS: Final = (
    *_section(
        "Pod-garbage-collector-controller",
        Flag(
            "terminated-pod-gc-threshold",
            "int32",
            "12500",
            "The number of ended pods from which on the oldest are deleted; 0 or "
            "less deletes none.",
            "PodGCController.TerminatedPodGCThreshold",
        ),
    ),
    _syncs(
        "Replicaset-controller",
        "concurrent-replicaset-syncs",
        5,
        "ReplicaSetController.ConcurrentRSSyncs",
        "replica sets",
    ),
    _syncs(
        "Replicationcontroller-controller",
        "concurrent-rc-syncs",
        5,
        "ReplicationController.ConcurrentRCSyncs",
        "replication controllers",
    ),
    _syncs(
        "Resourcequota-controller",
        "concurrent-resource-quota-syncs",
        5,
        "ResourceQuotaController.ConcurrentResourceQuotaSyncs",
        "resource quotas",
    ),
    *_section(
        "Resourcequota-controller",
        Flag(
            "resource-quota-sync-period",
            "duration",
            "5m0s",
            "How often to sync the usage of quotas.",
            "ResourceQuotaController.ResourceQuotaSyncPeriod",
        ),
    ),
    *_section(
        "Serviceaccount-controller",
        Flag(
            "concurrent-serviceaccount-token-syncs",
            "int32",
            "5",
            "The number of service account tokens that are synced at a time.",
            "SAController.ConcurrentSATokenSyncs",
            inert=_NO_TOKENS,
        ),
        Flag(
            "root-ca-file",
            "string",
            None,
            "The authority to publish in every namespace; by default the kubeconfig's.",
            "SAController.RootCAFile",
        ),
        Flag(
            "service-account-private-key-file",
            "string",
            None,
            "The key to sign service accounts' tokens with.",
            "SAController.ServiceAccountKeyFile",
            inert=_NO_TOKENS,
        ),
    ),
    _syncs(
        "Ttl-after-finished-controller",
        "concurrent-ttl-after-finished-syncs",
        5,
        "TTLAfterFinishedController.ConcurrentTTLSyncs",
        "finished objects",
    ),
    _syncs(
        "Validatingadmissionpolicy-status-controller",
        "concurrent-validating-admission-policy-status-syncs",
        5,
        "ValidatingAdmissionPolicyStatusController.ConcurrentPolicySyncs",
        "admission policies",
    ),
)

_METRICS: Final = _section(
    "Metrics",
    Flag(
        "allow-metric-labels",
        "pairs",
        None,
        "The values that labels of metrics may have.",
        value_name="metric,label=v1,v2",
        inert="the labels of this build's metrics are few",
    ),
    Flag(
        "allow-metric-labels-manifest",
        "string",
        None,
        "A file with the values that labels of metrics may have.",
        inert="the labels of this build's metrics are few",
    ),
    Flag(
        "disabled-metrics",
        "strings",
        None,
        "Names of metrics to leave out.",
    ),
    Flag(
        "show-hidden-metrics-for-version",
        "string",
        None,
        "The earlier version whose hidden metrics to show.",
        inert=_HIDDEN,
    ),
)

_LOGS: Final = _section(
    "Logs",
    Flag(
        "log-flush-frequency",
        "duration",
        "5s",
        "The longest time between two flushes of logs. Here each line is written at "
        "once.",
    ),
    Flag(
        "log-json-info-buffer-size",
        "quantity",
        None,
        "The size of the buffer of info messages in JSON.",
        inert=_BUFFERS,
    ),
    Flag(
        "log-json-split-stream",
        "bool",
        "false",
        "In JSON, write errors to standard error and the rest to standard output.",
    ),
    Flag(
        "log-text-info-buffer-size",
        "quantity",
        None,
        "The size of the buffer of info messages in text.",
        inert=_BUFFERS,
    ),
    Flag(
        "log-text-split-stream",
        "bool",
        "false",
        "In text, write errors to standard error and the rest to standard output.",
    ),
    Flag(
        "logging-format",
        "string",
        "text",
        'Sets the log format. Permitted formats: "json", "text".',
    ),
    Flag(
        "v",
        "Level",
        "0",
        "Number for the log level verbosity.",
        short="v",
    ),
    Flag(
        "vmodule",
        "pairs",
        None,
        "Verbosity of single modules, by their names, in which * and ? stand for "
        "anything (text format only).",
        value_name="pattern=N,...",
    ),
)

_MISC: Final = _section(
    "Misc",
    Flag(
        "kubeconfig",
        "string",
        None,
        "Path to kubeconfig file with authorization and master location information "
        "(the master location can be overridden by the master flag).",
        "Generic.ClientConnection.kubeconfig",
    ),
    Flag(
        "master",
        "string",
        None,
        "The address of the Kubernetes API server (overrides any value in kubeconfig).",
    ),
)

FLAGS: Final = (
    *_DEBUGGING,
    *_LEADER_MIGRATION,
    *_GENERIC,
    *_SERVICE_LB,
    *_SERVING,
    *_AUTHENTICATION,
    *_AUTHORIZATION,
    *_ATTACH_DETACH,
    *_SIGNING,
    *_CONTROLLERS,
    *_VOLUMES,
    *_MORE_CONTROLLERS,
    *_METRICS,
    *_LOGS,
    *_MISC,
)
"""In the order of upstream's help: sections, and names within each."""

FLAGS_BY_NAME: Final[Mapping[str, Flag]] = {flag.name: flag for flag in FLAGS}
