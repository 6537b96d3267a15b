"""The frozen config that is made from flags and file. Times are in seconds."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from .controller_options import ControllerOptions
from .gates import THIS_MINOR, FeatureGates
from .leader_migration import LeaderMigrationConfig
from .tls import LOWEST_VERSION

OptionsT = TypeVar("OptionsT", bound=ControllerOptions)

WRITE_TIMEOUT: Final = 70.0
"""Seconds that a write may take.

Longer than the API server's own limit of a minute (its --request-timeout), so that
the API server ends a slow write and returns an error.
"""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The rate limit of one client; a `qps` of 0 or less means no limit."""

    qps: float = 20.0
    burst: int = 30


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The connection to the API server, and the rate limits.

    `controllers` has the limits of controllers for which flags set one. Without
    `multiplies_rate` and `multiplies_burst`, the factors of other controllers do not
    count. `write_timeout` is in seconds.
    """

    kubeconfig: str = ""
    master: str = ""
    limit: RateLimit = RateLimit()
    write_timeout: float = WRITE_TIMEOUT
    controllers: Mapping[str, RateLimit] = field(default_factory=dict)
    multiplies_rate: bool = True
    multiplies_burst: bool = True

    def limit_of(
        self, controller: str, qps_factor: int = 1, burst_factor: int = 1
    ) -> RateLimit:
        """Return the limit of one controller, by its name.

        Unless flags set one, it is the general limit times the controller's factors,
        which are above 1 for controllers that send many requests. Factors of
        client-go's own defaults, which 0 stands for, do not count: upstream multiplies
        the 0.
        """
        general = RateLimit(
            self.limit.qps * (qps_factor if self.multiplies_rate else 1),
            self.limit.burst * (burst_factor if self.multiplies_burst else 1),
        )
        return self.controllers.get(controller, general)


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """The options of the leader election."""

    leader_elect: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    resource_name: str = "kube-controller-manager"
    resource_namespace: str = "kube-system"


@dataclass(frozen=True, slots=True)
class GenericConfig:
    """The options that concern all controllers.

    Without `leader_migration` all controllers run under one lease.
    """

    controllers: tuple[str, ...] = ("*",)
    controller_start_interval: float = 0.0
    controller_shutdown_timeout: float = 10.0
    min_resync_period: float = 43200.0
    node_monitor_period: float = 5.0
    api_server_timeout: float = 0.0
    use_service_account_credentials: bool = False
    profiling: bool = True
    leader_election: LeaderElectionConfig = LeaderElectionConfig()
    leader_migration: LeaderMigrationConfig | None = None


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """The options of logs; `vmodule` has verbosities by pattern of a module's name."""

    format: Literal["text", "json"] = "text"
    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    split_stream: bool = False


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate, its key, and the server names that it is for (SNI)."""

    certificate: str
    key: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServingConfig:
    """The options of the HTTPS server; port 0 serves nothing."""

    port: int = 10257
    bind_address: str = "0.0.0.0"  # noqa: S104 - upstream's default
    certificate: CertificateFiles | None = None
    cert_dir: str = ""
    sni: tuple[CertificateFiles, ...] = ()
    min_tls_version: ssl.TLSVersion = LOWEST_VERSION
    ciphers: tuple[str, ...] = ()
    curve: str = ""
    permit_address_sharing: bool = False
    permit_port_sharing: bool = False


@dataclass(frozen=True, slots=True)
class RequestHeaderConfig:
    """The clients that may name a user in headers, and these headers."""

    client_ca_file: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)


@dataclass(frozen=True, slots=True)
class AuthenticationConfig:
    """The authentication: the ways to find out the user of a request."""

    kubeconfig: str = ""
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = False
    cache_ttl: float = 10.0
    client_ca_file: str = ""
    request_header: RequestHeaderConfig = RequestHeaderConfig()


@dataclass(frozen=True, slots=True)
class AuthorizationConfig:
    """The authorization: the ways to decide whether a user may make a request."""

    kubeconfig: str = ""
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    authorized_ttl: float = 10.0
    unauthorized_ttl: float = 10.0


@dataclass(frozen=True, slots=True)
class PodRangesConfig:
    """The allocation of pod CIDRs to nodes: whether it is on, and the ranges.

    `cluster` is a range, or one for each address family with a comma between them.
    """

    allocate: bool = False
    allocator: str = "RangeAllocator"
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class PreviewConfig:
    """The options of the preview, which runs beside another manager and writes nothing.

    `grace` is the time in seconds that the manager in charge has to make the same
    write, and by which two timestamps may differ. With `dry_run` each write is sent as
    a dry run, so that admission can refuse it. `taken` are flags of the manager in
    charge, as arguments, and `source` is its pod. No flag sets the bounds of the
    memory: those of the overlay, of the divergences that are listed, and of the changes
    that are kept for watches that begin again.
    """

    enabled: bool = False
    grace: float = 30.0
    dry_run: bool = False
    source: str = ""
    taken: tuple[str, ...] = ()
    most_entries: int = 10_000
    most_bytes: int = 64 << 20
    most_findings: int = 1_000
    most_changes: int = 2_000


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration of the daemon.

    `controllers` has the options of controllers, by the class that declares them; a
    class that is not there has all defaults. `given_gates` has the feature gates that
    are given, also those without an effect here. `emulated_version` is the version
    whose defaults the feature gates have. `document` is the configuration as /configz
    shows it, `flags` as /flagz shows it.
    """

    client: ClientConfig = field(default_factory=ClientConfig)
    generic: GenericConfig = field(default_factory=GenericConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    serving: ServingConfig = field(default_factory=ServingConfig)
    authentication: AuthenticationConfig = field(default_factory=AuthenticationConfig)
    authorization: AuthorizationConfig = field(default_factory=AuthorizationConfig)
    disabled_metrics: tuple[str, ...] = ()
    controllers: Mapping[type[ControllerOptions], ControllerOptions] = field(
        default_factory=dict
    )
    root_ca_file: str = ""
    pod_ranges: PodRangesConfig = PodRangesConfig()
    preview: PreviewConfig = PreviewConfig()
    features: FeatureGates = field(default_factory=FeatureGates)
    given_gates: Mapping[str, bool] = field(default_factory=dict)
    emulated_version: str = f"1.{THIS_MINOR}"
    warnings: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)

    def of(self, options: type[OptionsT]) -> OptionsT:
        """Return the options that a controller declares, by their class."""
        found = self.controllers.get(options)
        return found if isinstance(found, options) else options()
