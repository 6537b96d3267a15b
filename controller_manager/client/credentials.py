"""Where the API server is, and as whom to talk to it.

A kubeconfig is read here; what needs a program to be run (exec plugins,
auth-provider) is left to kubernetes_asyncio, which is imported only then:
its package costs 38 MB and most of a second.
"""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import yaml

from controller_manager.clock import Clock

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_LIFETIME: Final = 60.0
"""Seconds after which a token file is read again, as client-go does."""


class ConfigError(Exception):
    """A kubeconfig that cannot be used; the message names culprit and mend."""


class Credentials:
    """What a transport needs to reach one server as one user."""

    def __init__(  # noqa: PLR0913 - one per field of a kubeconfig
        self,
        server: str,
        *,
        clock: Clock,
        ca_data: bytes | None = None,
        client_certificate: bytes | None = None,
        client_key: bytes | None = None,
        verify: bool = True,
        token: str = "",
        token_file: Path | None = None,
        basic: str = "",
        plugin: "Plugin | None" = None,
        proxy: str | None = None,
        tls_server_name: str | None = None,
    ) -> None:
        """Take the server's URL; certificates and keys are PEM bytes.

        Raises ConfigError for a URL or token that cannot be used.
        """
        _check_server(server)
        if not token.isprintable():
            msg = "kubeconfig: the token contains characters that cannot be sent"
            raise ConfigError(msg)
        self.server = server
        self.proxy = proxy
        self.tls_server_name = tls_server_name
        self._clock = clock
        self._ca_data = ca_data
        self._client_certificate = client_certificate
        self._client_key = client_key
        self._verify = verify
        self._token = token
        self._token_file = token_file
        self._token_read_at = float("-inf")
        self._basic = basic
        self._plugin = plugin

    def ssl_context(self) -> ssl.SSLContext | bool:
        """Return the TLS settings; raises ConfigError if they are unusable."""
        if urlsplit(self.server).scheme != "https":
            return True
        context = ssl.create_default_context()
        try:
            if self._ca_data:
                field = "certificate-authority"
                context = ssl.create_default_context(cadata=self._ca_data.decode())
            if not self._verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self._client_certificate and self._client_key:
                field = "client-certificate or client-key"
                _load_client_certificate(
                    context, self._client_certificate, self._client_key
                )
        except (ssl.SSLError, ValueError) as error:
            msg = f"kubeconfig: {field} cannot be used: it must be PEM ({error})"
            raise ConfigError(msg) from error
        return context

    async def headers(self) -> Mapping[str, str]:
        """Return the Authorization header, refreshed if need be."""
        if self._plugin is not None:
            return {"Authorization": await self._plugin.authorization()}
        if self._token_file is not None:
            self._read_token_file(self._token_file)
        if self._token:
            return {"Authorization": f"Bearer {self._token}"}
        return {"Authorization": f"Basic {self._basic}"} if self._basic else {}

    def _read_token_file(self, path: Path) -> None:
        now = self._clock.monotonic()
        if now - self._token_read_at < _TOKEN_LIFETIME:
            return
        try:
            self._token = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            if not self._token:
                msg = f"token file {path}: {error.strerror}"
                raise ConfigError(msg) from error
            return  # a token that was good a minute ago is better than none
        self._token_read_at = now


def _check_server(server: str) -> None:
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("http", "https") and parts.hostname
        _ = parts.port  # raises ValueError if it is out of range
    except ValueError:
        usable = False
    if not usable:
        msg = f"server {server!r} is not a usable http:// or https:// URL"
        raise ConfigError(msg)


class Plugin:
    """A user whose token comes from a program (exec) or an auth-provider."""

    def __init__(
        self, config: Mapping[str, Any], context: str, base: Path, *, is_exec: bool
    ) -> None:
        """Take the merged kubeconfig, the context and the paths' base."""
        self._is_exec = is_exec
        self._config = config
        self._context = context
        self._base = base
        self._loader: Any = None
        self._lasting = ""

    async def authorization(self) -> str:
        """Return the header's value; kubernetes_asyncio renews it by expiry.

        Credentials that do not say when they expire are kept.
        """
        if self._lasting:
            return self._lasting
        from kubernetes_asyncio.config.kube_config import (  # noqa: PLC0415 - 38 MB
            KubeConfigLoader,
        )

        if self._loader is None:
            self._loader = KubeConfigLoader(
                config_dict=self._config,
                active_context=self._context,
                config_base_path=str(self._base),
            )
        try:
            await self._loader._load_authentication()  # noqa: SLF001 - its only entry
        except Exception as error:
            msg = f"kubeconfig: the credential plugin failed: {error}"
            raise ConfigError(msg) from error
        token = getattr(self._loader, "token", None)
        if not token:
            msg = "kubeconfig: the credential plugin returned no token"
            raise ConfigError(msg)
        if not hasattr(self._loader, "exec_plugin_expiry") and self._is_exec:
            self._lasting = str(token)
        return str(token)


def _load_client_certificate(
    context: ssl.SSLContext, certificate: bytes, key: bytes
) -> None:
    # The ssl module takes client certificates from files only.
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def load_credentials(kubeconfig: str, master: str, clock: Clock) -> Credentials:
    """Return the credentials that ``--kubeconfig`` and ``--master`` name.

    Without both, the pod's service account is used (in-cluster). `master`
    overrides the server of the kubeconfig. Raises ConfigError.
    """
    if kubeconfig:
        return from_kubeconfig(kubeconfig, master, clock)
    if master:
        return Credentials(_with_scheme(master), clock=clock)
    return in_cluster(clock)


def in_cluster(clock: Clock, directory: Path = SERVICE_ACCOUNT) -> Credentials:
    """Return the credentials of the pod that this process runs in."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token_file = directory / "token"
    if not host or not token_file.exists():
        msg = (
            "no API server is configured: give --kubeconfig PATH or --master URL, "
            "or run in a pod with a service account"
        )
        raise ConfigError(msg)
    if ":" in host:
        host = f"[{host}]"
    try:
        authority = (directory / "ca.crt").read_bytes()
    except OSError as error:
        msg = f"service account: {directory / 'ca.crt'}: {error.strerror}"
        raise ConfigError(msg) from error
    return Credentials(
        f"https://{host}:{port}",
        clock=clock,
        ca_data=authority,
        token_file=token_file,
    )


def _with_scheme(master: str) -> str:
    return master if "://" in master else f"http://{master}"


def from_kubeconfig(
    paths: str, master: str, clock: Clock, context: str | None = None
) -> Credentials:
    """Return the credentials of a kubeconfig's current (or given) context.

    `paths` may name several files, separated as in ``$KUBECONFIG``; the first
    to name a thing wins.
    """
    config, base = _merge(paths)
    where = f"kubeconfig {paths}"
    name = context or config.get("current-context") or ""
    if not name:
        msg = f"{where}: no current-context is set; set one of: {_names(config)}"
        raise ConfigError(msg)
    chosen = _named(config, "contexts", "context", name, where)
    cluster = _named(config, "clusters", "cluster", chosen.get("cluster"), where)
    user: Mapping[str, Any] = {}
    if chosen.get("user"):
        user = _named(config, "users", "user", chosen["user"], where)
    server = _with_scheme(master) if master else str(cluster.get("server") or "")
    if not server:
        msg = f"{where}: cluster {chosen.get('cluster')!r} names no server"
        raise ConfigError(msg)
    plugin = None
    if "exec" in user or "auth-provider" in user:
        plugin = Plugin(config, name, base, is_exec="exec" in user)
    token_file = user.get("tokenFile")
    basic = ""
    if "username" in user and "password" in user:
        pair = f"{user['username']}:{user['password']}"
        basic = base64.b64encode(pair.encode()).decode()
    return Credentials(
        server,
        clock=clock,
        ca_data=_data(cluster, "certificate-authority", base, where),
        client_certificate=_data(user, "client-certificate", base, where),
        client_key=_data(user, "client-key", base, where),
        verify=not cluster.get("insecure-skip-tls-verify"),
        token=str(user.get("token") or ""),
        token_file=base / str(token_file) if token_file else None,
        basic=basic,
        plugin=plugin,
        proxy=cluster.get("proxy-url"),
        tls_server_name=cluster.get("tls-server-name"),
    )


def _merge(paths: str) -> tuple[dict[str, Any], Path]:
    merged: dict[str, Any] = {}
    base = Path()
    for number, text in enumerate(filter(None, paths.split(os.pathsep))):
        path = Path(text).expanduser()
        document = _read(path)
        if number == 0:
            base = path.resolve().parent
        for key, value in document.items():
            if key in _SECTIONS and not isinstance(value, list | None):
                msg = f"kubeconfig {path}: {key} must be a list"
                raise ConfigError(msg)
            if isinstance(value, list):
                merged.setdefault(key, [])
                known = {entry.get("name") for entry in merged[key]}
                merged[key] += [
                    _with_absolute_paths(entry, path.resolve().parent)
                    for entry in value
                    if isinstance(entry, dict) and entry.get("name") not in known
                ]
            elif value is not None and not merged.get(key):
                merged[key] = value
    return merged, base


_SECTIONS: Final = ("clusters", "contexts", "users")
_PATHS: Final = (
    "certificate-authority",
    "client-certificate",
    "client-key",
    "tokenFile",
)


def _with_absolute_paths(entry: dict[str, Any], base: Path) -> dict[str, Any]:
    """Return `entry` with its file names resolved against its own file."""
    return {
        key: {
            inner: str(base / value) if inner in _PATHS and value else value
            for inner, value in body.items()
        }
        if isinstance(body, dict)
        else body
        for key, body in entry.items()
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"kubeconfig {path}: {error.strerror}"
        raise ConfigError(msg) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = getattr(error, "problem", None) or "not UTF-8 text"
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        msg = f"kubeconfig {path}{line}: not valid YAML: {problem}"
        raise ConfigError(msg) from error
    if document is None:
        msg = f"kubeconfig {path}: the file is empty"
        raise ConfigError(msg)
    if not isinstance(document, dict):
        msg = f"kubeconfig {path}: not a kubeconfig: its top level is no mapping"
        raise ConfigError(msg)
    return cast("dict[str, Any]", document)


def _names(config: Mapping[str, Any]) -> str:
    contexts = config.get("contexts") or []
    return ", ".join(str(entry.get("name")) for entry in contexts) or "(none defined)"


def _named(
    config: Mapping[str, Any], section: str, key: str, name: object, where: str
) -> Mapping[str, Any]:
    for entry in config.get(section) or []:
        if entry.get("name") == name:
            body = entry.get(key)
            if isinstance(body, dict):
                return body
            break
    else:
        known = ", ".join(str(entry.get("name")) for entry in config.get(section) or [])
        msg = f"{where}: there is no {key} {name!r}; there is: {known or '(none)'}"
        raise ConfigError(msg)
    msg = f"{where}: {key} {name!r} has no {key!r} mapping"
    raise ConfigError(msg)


def _data(section: Mapping[str, Any], key: str, base: Path, where: str) -> bytes | None:
    if encoded := section.get(f"{key}-data"):
        try:
            return base64.b64decode(str(encoded), validate=True)
        except binascii.Error as error:
            msg = f"{where}: {key}-data is not base64: {error}"
            raise ConfigError(msg) from error
    if name := section.get(key):
        path = base / str(name)
        try:
            return path.read_bytes()
        except OSError as error:
            msg = f"{where}: {key} {path}: {error.strerror}"
            raise ConfigError(msg) from error
    return None
