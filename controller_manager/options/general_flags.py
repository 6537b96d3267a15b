"""The flags of no particular controller, except those of the HTTPS server."""

from typing import Final

from .checks import (
    external_or_none,
    longer_than_nothing,
    metric_labels,
    metric_labels_file,
    metric_names,
    no_user,
    previous_minor,
    range_allocator,
    readable_document,
)
from .flag import Flag, section

_CLOUD: Final = "this build has no cloud provider"


_GO: Final = "it concerns Go's runtime"


_JSON_ONLY: Final = "requests are always JSON"


_VERSIONS: Final = "this build behaves as one version"


_BUFFERS: Final = "lines are written at once"


_HIDDEN: Final = "this build hides no metrics"


_DEBUGGING: Final = section(
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
        "Serve /debug/pprof/goroutine, the stacks of tasks and threads, and "
        "/debug/flags/v, which sets the verbosity.",
        "Generic.Debugging.enableProfiling",
    ),
)


_LEADER_MIGRATION: Final = section(
    "Leader-migration",
    Flag(
        "enable-leader-migration",
        "bool",
        "false",
        "Migrate controllers' leadership between managers.",
        "Generic.LeaderMigrationEnabled",
    ),
    Flag(
        "leader-migration-config",
        "string",
        None,
        "Path of the configuration of leader migration, a LeaderMigrationConfiguration "
        "of controllermanager.config.k8s.io/v1; empty for upstream's default.",
        check=readable_document,
    ),
)


_GENERIC: Final = section(
    "Generic",
    Flag(
        "allocate-node-cidrs",
        "bool",
        "false",
        "Allocate pod CIDRs to nodes.",
        "KubeCloudShared.AllocateNodeCIDRs",
        used_by=("node-ipam-controller",),
    ),
    Flag(
        "cidr-allocator-type",
        "string",
        "RangeAllocator",
        "Type of the allocator of pod CIDRs.",
        "KubeCloudShared.CIDRAllocatorType",
        used_by=("node-ipam-controller",),
        check=range_allocator,
    ),
    Flag(
        "cloud-config",
        "string",
        None,
        "Path of the cloud provider's configuration file.",
        "KubeCloudShared.CloudProvider.CloudConfigFile",
        inert=_CLOUD,
        inert_upstream=True,
    ),
    Flag(
        "cloud-provider",
        "string",
        None,
        'The provider of cloud services; "external", or empty for none.',
        "KubeCloudShared.CloudProvider.Name",
        inert=_CLOUD,
        inert_upstream=True,
        check=external_or_none,
    ),
    Flag(
        "cluster-cidr",
        "string",
        None,
        "CIDR range of the cluster's pods.",
        "KubeCloudShared.ClusterCIDR",
        used_by=("node-ipam-controller",),
    ),
    Flag(
        "cluster-name",
        "string",
        "kubernetes",
        "Prefix of the names of the cluster's cloud resources.",
        "KubeCloudShared.ClusterName",
        inert=_CLOUD,
        inert_upstream=True,
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
        "Configure routes at the cloud provider.",
        "KubeCloudShared.ConfigureCloudRoutes",
        inert=_CLOUD,
        inert_upstream=True,
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
        "Time that syncs in progress may take after a signal to stop.",
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
        "The earlier version of Kubernetes whose defaults of feature gates to have, "
        "such as 1.35 or kube=1.35.",
    ),
    Flag(
        "external-cloud-volume-plugin",
        "string",
        None,
        "The volume plugin to use when the cloud provider is external.",
        "KubeCloudShared.ExternalCloudVolumePlugin",
        inert=_CLOUD,
        inert_upstream=True,
    ),
    Flag(
        "feature-gates",
        "gates",
        None,
        "A set of key=value pairs that switch features on or off. Options are:\n",
        "FeatureGates",
        value_name="key=true|false,...",
    ),
    Flag(
        "kube-api-burst",
        "int32",
        "30",
        "Burst to use while talking with the Kubernetes API server, per controller; 0 "
        "stands for 10.",
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
        "QPS to use while talking with the Kubernetes API server, per controller; 0 "
        "stands for 5, a negative number for no limit.",
        "Generic.ClientConnection.qps",
        value_name="float",
    ),
    Flag(
        "kube-api-write-timeout",
        "duration",
        "1m10s",
        "Time that a write may wait for its response. The default is longer than the "
        "API server's own limit of a minute. Not one of upstream's flags.",
    ),
    Flag(
        "leader-elect",
        "bool",
        "true",
        "Become the leader before starting controllers. Needed if several managers "
        "run.",
        "Generic.LeaderElection.leaderElect",
    ),
    Flag(
        "leader-elect-lease-duration",
        "duration",
        "15s",
        "Time that other managers wait after the last renewal that they have seen, "
        "before they acquire the lease.",
        "Generic.LeaderElection.leaseDuration",
    ),
    Flag(
        "leader-elect-renew-deadline",
        "duration",
        "10s",
        "Time after its last renewal at which a leader stops leading, if it cannot "
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
        "Time between attempts to acquire or renew the lease.",
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
        "Period of the checks of the status of nodes.",
        "KubeCloudShared.NodeMonitorPeriod",
        used_by=("node-lifecycle-controller",),
    ),
    Flag(
        "preview",
        "bool",
        "false",
        "Run beside the manager in charge and write nothing: take no lease, decide as "
        "if each write had happened, and report what the other manager does not do "
        "alike, see /debug/preview. Not one of upstream's flags.",
    ),
    Flag(
        "preview-dry-run",
        "bool",
        "false",
        "With --preview, send each write as a dry run, so that admission can refuse "
        "it. Aggregated API servers get none: they may do the write. Not one of "
        "upstream's flags.",
    ),
    Flag(
        "preview-grace",
        "duration",
        "30s",
        "With --preview, the time that the manager in charge has to make the same "
        "write. Not one of upstream's flags.",
    ),
    Flag(
        "route-reconciliation-period",
        "duration",
        "10s",
        "Period of the syncs of the routes of nodes.",
        "KubeCloudShared.RouteReconciliationPeriod",
        inert=_CLOUD,
        inert_upstream=True,
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
        "Time to wait for the API server to be healthy at start-up; 0 waits "
        "for ever. Not one of upstream's flags.",
    ),
)


_METRICS: Final = section(
    "Metrics",
    Flag(
        "allow-metric-labels",
        "pairs",
        None,
        "The values that labels of metrics may have.",
        value_name="metric,label=v1,v2",
        inert="the labels of this build's metrics are few",
        check=metric_labels,
    ),
    Flag(
        "allow-metric-labels-manifest",
        "string",
        None,
        "A file with the values that labels of metrics may have.",
        inert="the labels of this build's metrics are few",
        check=metric_labels_file,
    ),
    Flag(
        "disabled-metrics",
        "strings",
        None,
        "Names of metrics to leave out.",
        check=metric_names,
    ),
    Flag(
        "show-hidden-metrics-for-version",
        "string",
        None,
        "The earlier version whose hidden metrics to show.",
        inert=_HIDDEN,
        check=previous_minor,
    ),
)


_LOGS: Final = section(
    "Logs",
    Flag(
        "log-flush-frequency",
        "duration",
        "5s",
        "The longest time between two flushes of logs. Here each line is written at "
        "once.",
        check=longer_than_nothing,
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
        "In JSON, write errors to standard error and the rest to standard output. "
        "Needs the feature gate LoggingAlphaOptions.",
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
        "In text, write errors to standard error and the rest to standard output. "
        "Needs the feature gate LoggingAlphaOptions.",
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
        "Verbosity of single modules, by patterns of their names with * and ? "
        "(text format only).",
        value_name="pattern=N,...",
    ),
)


_MISC: Final = section(
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
        check=no_user,
    ),
)


_AUTHORITY: Final = section(
    "Serviceaccount-controller",
    Flag(
        "root-ca-file",
        "string",
        None,
        "The certificate authority to publish in every namespace; by default that of "
        "the kubeconfig.",
        "SAController.RootCAFile",
        used_by=(
            "root-ca-certificate-publisher-controller",
            "serviceaccount-token-controller",
        ),
    ),
)

GENERAL_FLAGS: Final = (
    *_DEBUGGING,
    *_LEADER_MIGRATION,
    *_GENERIC,
    *_AUTHORITY,
    *_METRICS,
    *_LOGS,
    *_MISC,
)
