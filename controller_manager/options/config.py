"""The frozen config that flags and file become. Times are in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from controller_manager.options.flags import DEFAULT_SECURE_PORT

WRITE_TIMEOUT: Final = 70.0
"""Seconds that a write may take.

Longer than the API server's own limit of a minute (its --request-timeout), so that
it is the API server that ends a write, and says so.
"""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How fast one client may send; a `qps` of 0 or less limits nothing."""

    qps: float = 20.0
    burst: int = 30


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How to reach the API server, and how fast.

    `controllers` has the limits of those whose own differ. `write_timeout` is in
    seconds.
    """

    kubeconfig: str = ""
    master: str = ""
    limit: RateLimit = RateLimit()
    write_timeout: float = WRITE_TIMEOUT
    controllers: Mapping[str, RateLimit] = field(default_factory=dict)

    def limit_of(
        self, controller: str, qps_factor: int = 1, burst_factor: int = 1
    ) -> RateLimit:
        """Return the limit of one controller, by its name.

        Unless one was asked for, it is the general one times what the
        controller, which sends more than others, needs.
        """
        general = RateLimit(
            self.limit.qps * qps_factor, self.limit.burst * burst_factor
        )
        return self.controllers.get(controller, general)


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """Whether and how managers agree on the one that acts."""

    leader_elect: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    resource_name: str = "kube-controller-manager"
    resource_namespace: str = "kube-system"


@dataclass(frozen=True, slots=True)
class GenericConfig:
    """What concerns all controllers."""

    controllers: tuple[str, ...] = ("*",)
    controller_start_interval: float = 0.0
    controller_shutdown_timeout: float = 10.0
    min_resync_period: float = 43200.0
    api_server_timeout: float = 0.0
    use_service_account_credentials: bool = False
    profiling: bool = True
    leader_election: LeaderElectionConfig = LeaderElectionConfig()


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """How to log; `vmodule` has verbosities by pattern of a module's name."""

    format: Literal["text", "json"] = "text"
    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    split_stream: bool = False


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate, its key, and the names that it is for (SNI)."""

    certificate: str
    key: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServingConfig:
    """Where and how to serve; port 0 serves nothing."""

    port: int = DEFAULT_SECURE_PORT
    bind_address: str = "0.0.0.0"  # noqa: S104 - upstream's default
    certificate: CertificateFiles | None = None
    cert_dir: str = ""
    sni: tuple[CertificateFiles, ...] = ()
    min_tls_13: bool = False
    ciphers: tuple[str, ...] = ()
    curve: str = ""
    permit_address_sharing: bool = False
    permit_port_sharing: bool = False


@dataclass(frozen=True, slots=True)
class RequestHeaderConfig:
    """Who may name a user in headers, and in which."""

    client_ca_file: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)


@dataclass(frozen=True, slots=True)
class AuthenticationConfig:
    """How to find out who asks."""

    kubeconfig: str = ""
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = False
    cache_ttl: float = 10.0
    client_ca_file: str = ""
    request_header: RequestHeaderConfig = RequestHeaderConfig()


@dataclass(frozen=True, slots=True)
class AuthorizationConfig:
    """How to find out whether they may."""

    kubeconfig: str = ""
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    authorized_ttl: float = 10.0
    unauthorized_ttl: float = 10.0


@dataclass(frozen=True, slots=True)
class ConcurrencyConfig:
    """How many objects a controller works on at a time."""

    concurrent_syncs: int = 5


@dataclass(frozen=True, slots=True)
class GarbageCollectorConfig:
    """Whether garbage is collected, and by how many workers of each kind."""

    enabled: bool = True
    concurrent_syncs: int = 20


@dataclass(frozen=True, slots=True)
class NamespaceConfig:
    """How many namespaces are emptied at a time, and how often they are looked at."""

    concurrent_syncs: int = 10
    sync_period: float = 300.0


@dataclass(frozen=True, slots=True)
class PodGCConfig:
    """How many ended pods are kept; 0 or less keeps all of them."""

    terminated_pod_threshold: int = 12500


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The feature gates that have an effect in this build; see `options.gates`.

    `atomic_fifo`: a list replaces a cache in one moment. `pod_deletion_cost`: the
    annotation counts when pods are chosen for deletion.
    `stale_controller_consistency_replica_set`: a replica set is not synced before
    the caches show what the last sync wrote. `watch_list_client`: initial lists
    come by the watch. `deployment_replica_set_terminating_replicas`: statuses
    count terminating pods.
    """

    atomic_fifo: bool = True
    deployment_replica_set_terminating_replicas: bool = True
    pod_deletion_cost: bool = True
    stale_controller_consistency_replica_set: bool = True
    watch_list_client: bool = True


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that the daemon is told.

    `document` is the same as /configz shows it, `flags` as /flagz does.
    """

    client: ClientConfig = field(default_factory=ClientConfig)
    generic: GenericConfig = field(default_factory=GenericConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    serving: ServingConfig = field(default_factory=ServingConfig)
    authentication: AuthenticationConfig = field(default_factory=AuthenticationConfig)
    authorization: AuthorizationConfig = field(default_factory=AuthorizationConfig)
    disabled_metrics: tuple[str, ...] = ()
    deployment: ConcurrencyConfig = field(default_factory=ConcurrencyConfig)
    garbage_collector: GarbageCollectorConfig = GarbageCollectorConfig()
    namespace: NamespaceConfig = NamespaceConfig()
    pod_gc: PodGCConfig = PodGCConfig()
    replicaset: ConcurrencyConfig = field(default_factory=ConcurrencyConfig)
    replicationcontroller: ConcurrencyConfig = field(default_factory=ConcurrencyConfig)
    root_ca_file: str = ""
    ttl_after_finished: ConcurrencyConfig = field(default_factory=ConcurrencyConfig)
    features: FeatureGates = field(default_factory=FeatureGates)
    warnings: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
