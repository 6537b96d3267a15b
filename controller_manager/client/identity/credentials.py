"""Credentials: the address of the API server, and the identity to present to it.

Changes of token files and certificate files are picked up while the daemon runs, and
exec plugins run again when their credential expires.
"""

import base64
import os
import ssl
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from msgspec import structs

from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger, silent_logger
from controller_manager.options.checks import no_user
from controller_manager.urls import without_user

from . import tokens
from .exec_plugin import ExecPlugin
from .kubeconfig import ConfigError, Context, UserSection, material, read_kubeconfig
from .proxies import checked_proxy, environment_proxy
from .tls import TLSMaterial, TLSSettings

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Headers = Sequence[tuple[str, str]]

ReadKubeconfig = Callable[[str, str | None], Context]


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """Counts since the start that no request shows, for metrics.

    - `plugin_calls`: calls of exec plugins, by exit code and status (client-go's
      ExecPluginCalls).
    - `reloads`: times that the file of the API server's authorities was read again, by
      result and reason (client-go's TransportCAReloads).
    """

    plugin_calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    reloads: Counter[tuple[str, str]] = field(default_factory=Counter)

    def plus(self, other: "ConnectionCounts") -> "ConnectionCounts":
        """Return the sums."""
        return ConnectionCounts(
            self.plugin_calls + other.plugin_calls, self.reloads + other.reloads
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of one request: its headers and the TLS settings to connect with."""

    headers: Headers
    tls: ssl.SSLContext | bool

    @property
    def authorization(self) -> str:
        """The Authorization header, empty if there is none."""
        return dict(self.headers).get("Authorization", "")


class Credentials:
    """All that a transport needs to connect to one server as one user."""

    def __init__(  # noqa: PLR0913 - one per field of a kubeconfig
        self,
        server: str,
        *,
        clock: Clock,
        tls: TLSMaterial | None = None,
        ca_data: bytes | None = None,
        token: str = "",
        source: tokens.TokenSource | None = None,
        plugin: ExecPlugin | None = None,
        proxy: str | None = None,
        tls_server_name: str | None = None,
        impersonation: Headers = (),
        logger: Logger | None = None,
    ) -> None:
        """Raise ConfigError for a value that cannot be used."""
        _check_server(server)
        self.server = server
        self._is_https = urlsplit(server).scheme == "https"
        self.proxy = checked_proxy(proxy) or environment_proxy(server)
        self.tls_server_name = _name_in_certificate(server, tls_server_name)
        self._clock = clock
        self._logger = logger or silent_logger()
        self._material = tls or TLSMaterial(authority=ca_data)
        self._tls = TLSSettings(self._material, clock, self._logger)
        self._plugin = plugin
        if source is None and plugin is not None:
            source = tokens.PluginToken(plugin)
        bearer = f"Bearer {tokens.sendable(token, 'kubeconfig')}" if token else ""
        self._source = source or tokens.FixedAuthorization(bearer)
        self._impersonation = tuple(impersonation)
        if self._is_https:
            self._tls.check()

    @property
    def may_wait(self) -> bool:
        """True if `identity` may wait for a plugin or a provider."""
        return self._source.may_wait

    def expires_at(self) -> datetime | None:
        """Return when the plugin's credential expires, `None` if that is not known."""
        return self._plugin.expires_at if self._plugin is not None else None

    def certificate(self) -> Mapping[str, bytes]:
        """Return the client certificate as PEM, by its file or kubeconfig.

        That of a plugin is left out: the plugin runs again before it ends.
        """
        given, contents = self._material.certificate, self._tls.contents
        if given is None or self._plugin is not None or not contents:
            return {}
        where = str(given) if isinstance(given, Path) else self._material.where
        return {where: contents[1] or b""}

    def counts(self) -> ConnectionCounts:
        """Return the counts so far: calls of the plugin, reloads of files."""
        # Copies: a scrape reads them while another thread may count.
        calls = (
            self._plugin.calls
            if self._plugin is not None
            else Counter[tuple[str, str]]()
        )
        return ConnectionCounts(Counter(calls), Counter(self._tls.reloads))

    def authority(self) -> str:
        """Return the trusted authorities as PEM, empty for those of the system."""
        return self._tls.authority().decode(errors="replace")

    def anonymous(self) -> "Credentials":
        """Return credentials for the same server without any identity.

        They are for tokens of service accounts: a client certificate would take
        precedence over the token of a request.
        """
        material = TLSMaterial(
            self._material.where,
            authority=self._material.authority,
            verify=self._material.verify,
        )
        return Credentials(
            self.server,
            clock=self._clock,
            tls=material,
            proxy=self.proxy,
            tls_server_name=self.tls_server_name,
            logger=self._logger,
        )

    async def identity(self) -> Identity:
        """Return the identity to present now, from the current files and plugins.

        Raises ConfigError.
        """
        authorization = await self._source.authorization()
        headers = self._impersonation
        if authorization:
            headers = (("Authorization", authorization), *headers)
        if not self._is_https:
            return Identity(headers, tls=True)
        credential = await self._plugin.credential() if self._plugin else None
        return Identity(headers, self._tls.current(credential))

    async def refresh(self, refused: Identity) -> bool:
        """Read files and run plugins again, because the server answered 401.

        Tells whether the identity differs from `refused` now, so that a retry makes
        sense. Raises ConfigError.
        """
        other_token = await self._source.refresh(refused.authorization)
        if not self._is_https:
            return other_token
        if self._plugin is None:
            self._tls.check()
        return other_token or self._tls.context is not refused.tls

    async def close(self) -> None:
        """Stop background work."""
        await self._source.close()


def _check_server(server: str) -> None:
    if problem := no_user(server):
        msg = f"server {without_user(server)!r}: {problem}"
        raise ConfigError(msg)
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("http", "https") and parts.hostname
        _ = parts.port  # raises ValueError if it is out of range
    except ValueError:
        usable = False
    if not usable:
        msg = f"server {server!r} is not a usable http:// or https:// URL"
        raise ConfigError(msg)


def _name_in_certificate(server: str, tls_server_name: str | None) -> str | None:
    """Return the name that the certificate must have, `None` for the server's host.

    A certificate has no trailing dot, so one in the name does not count (Go:
    crypto/x509, VerifyHostname; crypto/tls, hostnameInSNI).
    """
    host = urlsplit(server).hostname or ""
    name = tls_server_name or host
    return None if name == host and not host.endswith(".") else name.removesuffix(".")


def load_credentials(
    kubeconfig: str,
    master: str,
    clock: Clock,
    logger: Logger | None = None,
    read: ReadKubeconfig = read_kubeconfig,
) -> Credentials:
    """Return the credentials that ``--kubeconfig`` and ``--master`` name.

    If both are empty, the pod's service account is used (in-cluster). `master`
    overrides the server of the kubeconfig. Raises ConfigError.
    """
    if kubeconfig:
        return from_kubeconfig(kubeconfig, master, clock, logger=logger, read=read)
    if master:
        return Credentials(_with_scheme(master), clock=clock, logger=logger)
    return in_cluster(clock, logger=logger)


def is_in_cluster(directory: Path = SERVICE_ACCOUNT) -> bool:
    """Tell whether this process runs in a pod with a service account."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    return bool(host) and (directory / "token").exists()


def in_cluster(
    clock: Clock, directory: Path = SERVICE_ACCOUNT, logger: Logger | None = None
) -> Credentials:
    """Return the credentials of the pod that this process runs in.

    The token and the CA are read again when the kubelet renews them.
    """
    if not is_in_cluster(directory):
        msg = (
            "no API server is configured: give --kubeconfig PATH or --master URL, "
            "or run in a pod with a service account"
        )
        raise ConfigError(msg)
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:
        host = f"[{host}]"
    authority = directory / "ca.crt"
    try:
        authority.read_bytes()
    except OSError as error:
        msg = f"service account: {authority}: {error.strerror}"
        raise ConfigError(msg) from error
    return Credentials(
        f"https://{host}:{port}",
        clock=clock,
        tls=TLSMaterial("service account", authority=authority),
        source=tokens.TokenFile(directory / "token", clock),
        logger=logger,
    )


def _with_scheme(master: str) -> str:
    return master if "://" in master else f"http://{master}"


def from_kubeconfig(
    paths: str,
    master: str,
    clock: Clock,
    context: str | None = None,
    logger: Logger | None = None,
    read: ReadKubeconfig = read_kubeconfig,
) -> Credentials:
    """Return the credentials of a kubeconfig's current (or given) context.

    `master` takes the place of the server, and of the name in its certificate. Over
    plain http:// no credentials are sent, only the wish to be another user. Upstream:
    clientcmd's ClientConfig, which asks IsConfigTransportTLS. `read` is
    `read_kubeconfig`, or remembers its results. Raises ConfigError.
    """
    chosen = _at_master(read(paths, context), master)
    where, cluster, user = chosen.where, chosen.cluster, chosen.user
    logger = logger or silent_logger()
    server = cluster.server or ""
    if not server:
        msg = f"{where}: the cluster of context {chosen.name!r} names no server"
        raise ConfigError(msg)
    _check_server(server)
    is_https = urlsplit(server).scheme == "https"
    if not is_https:
        _warn_of_credentials(chosen, server, logger)
    return Credentials(
        server,
        clock=clock,
        tls=_tls_material(chosen, is_used=is_https),
        source=_token_source(chosen, clock)
        if is_https
        else tokens.FixedAuthorization(),
        plugin=_plugin(chosen, clock, logger) if is_https else None,
        proxy=cluster.proxy_url,
        tls_server_name=cluster.tls_server_name,
        impersonation=_impersonation(user, where),
        logger=logger,
    )


def _at_master(context: Context, master: str) -> Context:
    if not master:
        return context
    # The name in the certificate is that of the kubeconfig's server.
    cluster = structs.replace(
        context.cluster, server=_with_scheme(master), tls_server_name=None
    )
    return replace(context, cluster=cluster)


def _warn_of_credentials(context: Context, server: str, logger: Logger) -> None:
    impersonated = ("as_user", "as_uid", "as_groups", "as_user_extra")
    credentials = structs.replace(context.user, **dict.fromkeys(impersonated))
    if credentials != UserSection():
        logger.warning(
            "Credentials are not sent: the server's URL is http://",
            server=without_user(server),
            kubeconfig=context.where,
        )


def _plugin(context: Context, clock: Clock, logger: Logger) -> ExecPlugin | None:
    if context.user.exec is None:
        return None
    return ExecPlugin(
        context.user.exec,
        context.cluster,
        context.where,
        clock=clock,
        logger=logger,
        directory=context.base,
    )


def _tls_material(context: Context, *, is_used: bool) -> TLSMaterial:
    """Return the material of a context, checked; it is not `is_used` without TLS."""
    where, cluster, user = context.where, context.cluster, context.user
    certificate = material(
        user.client_certificate_data,
        user.client_certificate,
        "client-certificate",
        where,
    )
    key = material(user.client_key_data, user.client_key, "client-key", where)
    if (certificate is None) != (key is None):
        absent = "client-certificate" if certificate is None else "client-key"
        msg = f"{where}: {absent} is missing: a certificate and its key go together"
        raise ConfigError(msg)
    authority = material(
        cluster.certificate_authority_data,
        cluster.certificate_authority,
        "certificate-authority",
        where,
    )
    if is_used and authority is not None and cluster.insecure_skip_tls_verify:
        # The first words are client-go's (transport.TLSConfigFor).
        msg = (
            f"{where}: specifying a root certificates file with the insecure flag is "
            "not allowed: take insecure-skip-tls-verify or certificate-authority out"
        )
        raise ConfigError(msg)
    return TLSMaterial(
        where,
        authority=authority,
        certificate=certificate,
        key=key,
        verify=not cluster.insecure_skip_tls_verify,
    )


def _token_source(context: Context, clock: Clock) -> tokens.TokenSource | None:
    user = context.user
    if user.exec is not None:
        return None
    if user.auth_provider:
        return tokens.AuthProvider(context)
    if user.token_file:
        return tokens.TokenFile(Path(user.token_file), clock)
    if user.token:
        return tokens.FixedAuthorization(
            f"Bearer {tokens.sendable(user.token, context.where)}"
        )
    if user.username:
        pair = f"{user.username}:{user.password or ''}"
        return tokens.FixedAuthorization(
            f"Basic {base64.b64encode(pair.encode()).decode()}"
        )
    return tokens.FixedAuthorization()


def _impersonation(user: UserSection, where: str) -> Headers:
    headers = [
        (f"Impersonate-{name}", value)
        for name, value in (("User", user.as_user), ("Uid", user.as_uid))
        if value
    ]
    headers += [("Impersonate-Group", each) for each in user.as_groups or ()]
    for key, values in (user.as_user_extra or {}).items():
        name = f"Impersonate-Extra-{quote(key, safe='')}"
        headers += [(name, each) for each in values]
    if headers and not user.as_user:
        msg = (
            f"{where}: requesting uid, groups or user-extra without impersonating a "
            "user: give as"
        )
        raise ConfigError(msg)
    for name, value in headers:
        if not value.isprintable():
            msg = f"{where}: {name} contains characters that cannot be sent"
            raise ConfigError(msg)
    return headers
