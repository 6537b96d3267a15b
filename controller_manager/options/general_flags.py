"""The flags of no particular controller, as a table.

A line has the name of a flag, its type and its default; its help is indented. A path in
the configuration file has an @, the name of a value stands in angle brackets, and -v is
a short form. "inert" says why a flag has no effect here, "inert upstream" that it has
none in kube-controller-manager either, and "used by" which controllers read it. The
flags of Service-lb-controller are those of cloud providers, which run nowhere since
1.31.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

from . import checks
from .flag import Flag, FlagType, section

_TABLE: Final = """
== Debugging ==

contention-profiling bool=false @Generic.Debugging.enableContentionProfiling
    Profile contention of locks, if profiling is on.
    inert: it concerns Go's runtime
profiling bool=true @Generic.Debugging.enableProfiling
    Serve /debug/pprof/goroutine, the stacks of tasks and threads, and /debug/flags/v,
    which sets the verbosity.

== Leader-migration ==

enable-leader-migration bool=false @Generic.LeaderMigrationEnabled
    Migrate controllers' leadership between managers.
leader-migration-config string
    Path of the configuration of leader migration, a LeaderMigrationConfiguration of
    controllermanager.config.k8s.io/v1; empty for upstream's default.

== Generic ==

allocate-node-cidrs bool=false @KubeCloudShared.AllocateNodeCIDRs
    Allocate pod CIDRs to nodes.
    used by: node-ipam-controller
cidr-allocator-type string=RangeAllocator @KubeCloudShared.CIDRAllocatorType
    Type of the allocator of pod CIDRs.
    used by: node-ipam-controller
cloud-config string @KubeCloudShared.CloudProvider.CloudConfigFile
    Path of the cloud provider's configuration file.
    inert upstream: this build has no cloud provider
cloud-provider string @KubeCloudShared.CloudProvider.Name
    The provider of cloud services; "external", or empty for none.
    inert upstream: this build has no cloud provider
cluster-cidr string @KubeCloudShared.ClusterCIDR
    CIDR range of the cluster's pods.
    used by: node-ipam-controller
cluster-name string=kubernetes @KubeCloudShared.ClusterName
    Prefix of the names of the cluster's cloud resources.
    inert upstream: this build has no cloud provider
config string <file>
    A YAML file with the same options, in the shape that /configz prints; flags win over
    it. Not one of upstream's flags.
configure-cloud-routes bool=true @KubeCloudShared.ConfigureCloudRoutes
    Configure routes at the cloud provider.
    inert upstream: this build has no cloud provider
controller-kube-api-burst pairs <controller=int32>
    Burst of one controller, instead of --kube-api-burst; may be given more than once.
    Not one of upstream's flags.
controller-kube-api-qps pairs <controller=float>
    QPS of one controller, instead of --kube-api-qps; may be given more than once. Not
    one of upstream's flags.
controller-shutdown-timeout duration=10s
    Time that syncs in progress may take after a signal to stop.
controller-start-interval duration=0s
    Interval between starting controllers; each wait is lengthened at random by up to as
    much again.
controllers strings=*
    A list of controllers to enable. '*' enables all on-by-default controllers, 'foo'
    enables the controller named 'foo', '-foo' disables the controller named 'foo'.
emulated-version strings
    The earlier version of Kubernetes whose defaults of feature gates to have, such as
    1.35 or kube=1.35.
external-cloud-volume-plugin string @KubeCloudShared.ExternalCloudVolumePlugin
    The volume plugin to use when the cloud provider is external.
    inert upstream: this build has no cloud provider
feature-gates gates @FeatureGates <key=true|false,...>
    A set of key=value pairs that switch features on or off. Options are:
kube-api-burst int32=30 @Generic.ClientConnection.burst
    Burst to use while talking with the Kubernetes API server, per controller; 0 stands
    for 10.
kube-api-content-type string=application/vnd.kubernetes.protobuf
    @Generic.ClientConnection.contentType
    Content type of requests to the API server.
    inert: requests are always JSON
kube-api-qps float32=20 @Generic.ClientConnection.qps <float>
    QPS to use while talking with the Kubernetes API server, per controller; 0 stands
    for 5, a negative number for no limit.
kube-api-write-timeout duration=1m10s
    Time that a write may wait for its response. The default is longer than the API
    server's own limit of a minute. Not one of upstream's flags.
leader-elect bool=true @Generic.LeaderElection.leaderElect
    Become the leader before starting controllers. Needed if several managers run.
leader-elect-lease-duration duration=15s @Generic.LeaderElection.leaseDuration
    Time that other managers wait after the last renewal that they have seen, before
    they acquire the lease.
leader-elect-renew-deadline duration=10s @Generic.LeaderElection.renewDeadline
    Time after its last renewal at which a leader stops leading, if it cannot renew.
    Must be less than the lease duration.
leader-elect-resource-lock string=leases @Generic.LeaderElection.resourceLock
    The type of object to hold the lock: "leases".
leader-elect-resource-name string=kube-controller-manager
    @Generic.LeaderElection.resourceName
    The name of the lease.
leader-elect-resource-namespace string=kube-system
    @Generic.LeaderElection.resourceNamespace
    The namespace of the lease.
leader-elect-retry-period duration=2s @Generic.LeaderElection.retryPeriod
    Time between attempts to acquire or renew the lease.
min-compatibility-version strings
    The oldest versions of control planes to be compatible with.
    inert: this build behaves as one version
min-resync-period duration=12h0m0s
    The resync period of informers is random between this and twice this.
node-monitor-period duration=5s @KubeCloudShared.NodeMonitorPeriod
    Period of the checks of the status of nodes.
    used by: node-lifecycle-controller
preview bool=false
    Run beside the manager in charge and write nothing: take no lease, decide as if each
    write had happened, and report what the other manager does not do alike, see
    /debug/preview. Not one of upstream's flags.
preview-dry-run bool=false
    With --preview, send each write as a dry run, so that admission can refuse it.
    Aggregated API servers get none: they may do the write. Not one of upstream's flags.
preview-grace duration=30s
    With --preview, the time that the manager in charge has to make the same write. Not
    one of upstream's flags.
route-reconciliation-period duration=10s @KubeCloudShared.RouteReconciliationPeriod
    Period of the syncs of the routes of nodes.
    inert upstream: this build has no cloud provider
use-service-account-credentials bool=false @KubeCloudShared.UseServiceAccountCredentials
    Run each controller as a service account of its own in kube-system.
wait-for-apiserver-timeout duration=0s
    Time to wait for the API server to be healthy at start-up; 0 waits for ever. Not one
    of upstream's flags.

== Serviceaccount-controller ==

root-ca-file string @SAController.RootCAFile
    The certificate authority to publish in every namespace; by default that of the
    kubeconfig.
    used by: root-ca-certificate-publisher-controller serviceaccount-token-controller

== Metrics ==

allow-metric-labels pairs <metric,label=v1,v2>
    The values that labels of metrics may have.
    inert: the labels of this build's metrics are few
allow-metric-labels-manifest string
    A file with the values that labels of metrics may have.
    inert: the labels of this build's metrics are few
disabled-metrics strings
    Names of metrics to leave out.
show-hidden-metrics-for-version string
    The earlier version whose hidden metrics to show.
    inert: this build hides no metrics

== Logs ==

log-flush-frequency duration=5s
    The longest time between two flushes of logs. Here each line is written at once.
log-json-info-buffer-size quantity
    The size of the buffer of info messages in JSON.
    inert: lines are written at once
log-json-split-stream bool=false
    In JSON, write errors to standard error and the rest to standard output. Needs the
    feature gate LoggingAlphaOptions.
log-text-info-buffer-size quantity
    The size of the buffer of info messages in text.
    inert: lines are written at once
log-text-split-stream bool=false
    In text, write errors to standard error and the rest to standard output. Needs the
    feature gate LoggingAlphaOptions.
logging-format string=text
    Sets the log format. Permitted formats: "json", "text".
v Level=0 -v
    Number for the log level verbosity.
vmodule pairs <pattern=N,...>
    Verbosity of single modules, by patterns of their names with * and ? (text format
    only).

== Misc ==

kubeconfig string @Generic.ClientConnection.kubeconfig
    Path to kubeconfig file with authorization and master location information (the
    master location can be overridden by the master flag).
master string
    The address of the Kubernetes API server (overrides any value in kubeconfig).

== Secure serving ==

bind-address ip=0.0.0.0
    The IP address to listen on for --secure-port. 0.0.0.0 and :: stand for all
    interfaces, of IPv4 and IPv6.
cert-dir string
    The directory of the certificates. A self-signed certificate is written to it, as
    kube-controller-manager.crt and .key, if --tls-cert-file is not given; without a
    directory it is kept in memory only.
disable-http2-serving bool=false
    Serve HTTP/1.1 only, which this build always does.
http2-max-streams-per-connection int=0
    The limit of streams in an HTTP/2 connection.
    inert: HTTP/1.1 is served only
permit-address-sharing bool=false
    Set SO_REUSEADDR, so that the address of a connection that is closing can be bound
    to.
permit-port-sharing bool=false
    Set SO_REUSEPORT, so that several managers can bind to one port.
secure-port int=10257
    The port on which to serve HTTPS with authentication and authorization. If 0,
    nothing is served.
tls-cert-file string
    The file with the certificate for HTTPS, followed by its intermediate certificates.
    Read again when it changes.
tls-cipher-suites strings
    The cipher suites to offer for TLS 1.2, by their IANA names. Those of TLS 1.3 cannot
    be chosen.
tls-curve-preferences int32Slice <int32Slice>
    The number of the curve to offer: 23, 24 or 25 (P-256, P-384, P-521). If several are
    given, or another one, OpenSSL chooses.
tls-min-version string
    The lowest version of TLS: VersionTLS12 (the default) or VersionTLS13.
tls-private-key-file string
    The file with the key of --tls-cert-file.
tls-sni-cert-key namedCertKey <certfile,keyfile[:name,...]>
    A certificate and its key, and optionally the names that it is for, such as
    *.example.com. May be given more than once.

== Authentication ==

authentication-kubeconfig string
    A kubeconfig for creating tokenreviews and for reading the client authorities of the
    cluster. Without it, and outside a pod, no bearer token identifies a user.
authentication-skip-lookup bool=false
    Do not read missing settings of authentication from the cluster.
authentication-token-webhook-cache-ttl duration=10s
    Time for which the user of a token is cached.
authentication-tolerate-lookup-failure bool=false
    Continue if settings of authentication cannot be read from the cluster; then no
    client certificate identifies a user.
client-ca-file string
    A request with a client certificate signed by an authority in this file is from the
    user of the certificate's common name.
requestheader-allowed-names strings
    Common names of client certificates that may name users in headers; without any, all
    that --requestheader-client-ca-file signed.
requestheader-client-ca-file string
    The authorities of client certificates that are needed to name users in headers.
requestheader-extra-headers-prefix strings=x-remote-extra-
    Prefixes of headers with further attributes of the user.
requestheader-group-headers strings=x-remote-group
    Headers with the groups of the user.
requestheader-uid-headers strings
    Headers with the uid of the user.
requestheader-username-headers strings=x-remote-user
    Headers with the name of the user.

== Authorization ==

authorization-always-allow-paths strings=/healthz,/readyz,/livez
    Paths that every client may read, without a subjectaccessreview; a * at the end
    matches any suffix.
authorization-kubeconfig string
    A kubeconfig for creating subjectaccessreviews. Without it, and outside a pod, only
    the group system:masters and --authorization-always-allow-paths are allowed.
authorization-webhook-cache-authorized-ttl duration=10s
    Time for which it is cached that a request is allowed.
authorization-webhook-cache-unauthorized-ttl duration=10s
    Time for which it is cached that a request is not allowed.

== Service-lb-controller ==

concurrent-service-syncs int32=1 @ServiceController.ConcurrentServiceSyncs
    The number of services to sync concurrently.
    inert upstream: this build has no cloud provider
"""

_CHECKS: Final[Mapping[str, checks.Check]] = {
    "allow-metric-labels": checks.metric_labels,
    "allow-metric-labels-manifest": checks.metric_labels_file,
    "cidr-allocator-type": checks.range_allocator,
    "cloud-provider": checks.external_or_none,
    "disabled-metrics": checks.metric_names,
    "leader-migration-config": checks.readable_document,
    "log-flush-frequency": checks.longer_than_nothing,
    "master": checks.no_user,
    "show-hidden-metrics-for-version": checks.previous_minor,
}


def _flags() -> Iterator[Flag]:
    title = ""
    for block in re.split(r"\n+(?=\S)", _TABLE.strip()):
        if block.startswith("== "):
            title = block.strip("= ")
        else:
            yield from section(title, _flag(block))


def _flag(block: str) -> Flag:
    """Return the flag of a block of the table."""
    head, *lines = block.splitlines()
    name, kind, *rest = head.split()
    kind, equals, default = kind.partition("=")
    marks = {each[0]: each[1:] for each in rest}
    words, notes = [], {}
    for line in map(str.strip, lines):
        note, colon, text = line.partition(": ")
        if line.startswith("@"):
            marks["@"] = line[1:]
        elif colon and note in ("inert", "inert upstream", "used by"):
            notes[note] = text
        else:
            words.append(line)
    return Flag(
        name,
        cast("FlagType", kind),
        default if equals else None,
        " ".join(words),
        path=marks.get("@", ""),
        value_name=marks.get("<", "").removesuffix(">"),
        short=marks.get("-", ""),
        inert=notes.get("inert", notes.get("inert upstream", "")),
        inert_upstream="inert upstream" in notes,
        used_by=tuple(notes.get("used by", "").split()),
        check=_CHECKS.get(name),
    )


GENERAL_FLAGS: Final = tuple(_flags())
