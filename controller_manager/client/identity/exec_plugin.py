"""Exec plugins: programs that print credentials (client.authentication.k8s.io).

Upstream: client-go plugin/pkg/client/auth/exec. The protocol is implemented here
because kubernetes_asyncio's provider has no timeout, no certificates and no cache.
"""

import asyncio
import base64
import json
import os
import signal
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from controller_manager.api.scalars import parse_rfc3339
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger

from .kubeconfig import ClusterSection, ConfigError, ExecSection, material

_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
_TIMEOUT: Final = 60.0
_BACKOFF_CAP: Final = 60.0
_LEEWAY: Final = timedelta(seconds=60)
_SHARE_OF_LIFE: Final = 4
"""A credential is renewed in the last part of its life; this is the part's divisor."""

_LEAST_USE: Final = 1.0
"""Seconds for which a new credential is used, even if it has expired by our clock."""

_MAX_OUTPUT: Final = 200
_NO_ERROR: Final = "no_error"
_EXECUTION: Final = "plugin_execution_error"
_NOT_FOUND: Final = "plugin_not_found_error"
_INTERNAL: Final = "client_internal_error"
_EXTENSION: Final = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """The credential that a plugin returned.

    Without `expires_at` it is used until the server answers 401.
    """

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires_at: datetime | None = None


class ExecPlugin:
    """Runs a credential plugin when a credential is needed or expires soon.

    The plugin runs once at a time and is killed after a minute. A run continues when
    the requests that wait for it are cancelled. One minute before a credential
    expires, or in the last quarter of a shorter life, it is renewed in the background
    and stays in use meanwhile. When the plugin fails, the old credential stays in use
    until it expires; after that every request fails, and the plugin is tried again
    after 1, 2, 4 … 60 s.

    Upstream runs the plugin once the credential has expired, and for each request if
    it prints expired ones. Here such a credential is used for a second: the clock may
    be wrong, and if it is not, the server answers 401.
    """

    def __init__(
        self,
        section: ExecSection,
        cluster: ClusterSection,
        where: str,
        *,
        clock: Clock,
        logger: Logger,
        directory: Path | None = None,
    ) -> None:
        """Resolve a relative command against `directory`.

        Raises ConfigError if the section cannot be used.
        """
        self._where = f"{where}: exec"
        self._command = _command(section, directory, self._where)
        self._arguments = list(section.args or ())
        self._environment = {each.name: each.value for each in section.env or ()}
        self._api_version = section.api_version
        if self._api_version not in _VERSIONS:
            msg = (
                f"{self._where}: apiVersion {self._api_version!r} is not supported; "
                f"use {' or '.join(_VERSIONS)}"
            )
            raise ConfigError(msg)
        if section.interactive_mode == "Always":
            msg = f"{self._where}: interactiveMode Always needs a terminal; use Never"
            raise ConfigError(msg)
        self._section = section
        self._cluster = cluster
        self._authorities = material(
            cluster.certificate_authority_data,
            cluster.certificate_authority,
            "certificate-authority",
            where,
        )
        self._last_authorities = b""
        self._hint = section.install_hint or ""
        self._clock = clock
        self._logger = logger
        self._credential: ExecCredential | None = None
        self._renew_at: datetime | None = None
        self._used_until = float("-inf")
        self._run: asyncio.Task[ConfigError | None] | None = None
        self._failures = 0
        self._not_before = float("-inf")
        self._last_error: ConfigError | None = None
        self.calls = Counter[tuple[str, str]]()
        """The calls so far, by exit code and status."""

    @property
    def expires_at(self) -> datetime | None:
        """When the credential in use expires, `None` if that is not known."""
        return self._credential.expires_at if self._credential is not None else None

    async def credential(self) -> ExecCredential:
        """Return a valid credential; raises ConfigError if there is none."""
        current = self._credential
        if current is not None and self._clock.monotonic() < self._used_until:
            return current
        if current is not None and not self._is_after(current.expires_at):
            if self._is_after(self._renew_at) and self._may_run():
                self._start()
            return current
        if error := await self._run_now():
            raise error
        assert self._credential is not None  # noqa: S101 - a run without an error
        return self._credential

    async def refresh(self, token: str) -> bool:
        """Run the plugin after a 401 for `token`; tell if there is another token.

        The plugin does not run if `token` has already been replaced.
        """
        before = self._credential
        if before is not None and before.token != token:
            return True
        if error := await self._run_now():
            self._logger.warning("Credential plugin failed", err=str(error))
            return False
        return self._credential != before

    async def close(self) -> None:
        """Cancel a run that is in progress."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)

    def _is_after(self, when: datetime | None) -> bool:
        return when is not None and self._clock.now() >= when

    def _may_run(self) -> bool:
        return self._clock.monotonic() >= self._not_before

    def _start(self) -> "asyncio.Task[ConfigError | None]":
        if self._run is None or self._run.done():
            self._run = asyncio.create_task(self._execute(), name="exec-plugin")
        return self._run

    async def _run_now(self) -> ConfigError | None:
        """Return the error; nothing runs while it waits after a failure."""
        if not self._may_run() and self._last_error is not None:
            return self._last_error
        return await asyncio.shield(self._start())

    def _use(self, credential: ExecCredential) -> None:
        ends = credential.expires_at
        self._renew_at = None
        if ends is not None:
            life = ends - self._clock.now()
            self._renew_at = ends - min(_LEEWAY, life / _SHARE_OF_LIFE)
        self._credential = credential
        self._used_until = self._clock.monotonic() + _LEAST_USE

    async def _execute(self) -> ConfigError | None:
        try:
            self._use(self._parsed(await self._output()))
        except ConfigError as error:
            delay = min(2.0**self._failures, _BACKOFF_CAP)
            self._failures += 1
            self._not_before = self._clock.monotonic() + delay
            self._last_error = error
            if self._credential is not None:
                self._logger.warning("Credential plugin failed", err=str(error))
            return error
        self._failures = 0
        self._not_before = float("-inf")
        return None

    async def _output(self) -> bytes:
        environment = {
            **os.environ,
            **self._environment,
            "KUBERNETES_EXEC_INFO": _exec_info(
                self._section, self._cluster, self._read_authorities()
            ),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *self._arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            is_absent = isinstance(error, FileNotFoundError)
            self.calls["1", _NOT_FOUND if is_absent else _INTERNAL] += 1
            hint = f"; {self._hint}" if self._hint else ""
            why = getattr(error, "strerror", None) or error
            msg = f"{self._where}: {self._command}: {why}{hint}"
            raise ConfigError(msg) from error
        try:
            async with asyncio.timeout(_TIMEOUT):
                output, error_output = await process.communicate()
        except TimeoutError:
            self.calls["1", _INTERNAL] += 1
            msg = f"{self._where}: {self._command} gave no answer within {_TIMEOUT:g} s"
            raise ConfigError(msg) from None
        finally:
            if process.returncode is None:
                # The group includes its child processes, which may hold its pipes.
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            self.calls[str(process.returncode), _EXECUTION] += 1
            shown = error_output.decode("utf-8", "replace").strip()[:_MAX_OUTPUT]
            msg = f"{self._where}: {self._command} exited with {process.returncode}" + (
                f": {' '.join(shown.split())}" if shown else ""
            )
            raise ConfigError(msg)
        self.calls["0", _NO_ERROR] += 1
        return output

    def _read_authorities(self) -> bytes:
        """Return the cluster's authorities for the plugin, of a file as it is now.

        Upstream (client-go rest/exec.go, ConfigToExecCluster) reads the file once.
        """
        if not self._section.provide_cluster_info:
            return b""
        if isinstance(self._authorities, Path):
            try:
                self._last_authorities = self._authorities.read_bytes()
            except OSError as error:
                self._logger.warning(
                    "Authorities not read, the plugin gets the last ones",
                    file=str(self._authorities),
                    err=error.strerror,
                )
            return self._last_authorities
        return self._authorities or b""

    def _parsed(self, output: bytes) -> ExecCredential:
        try:
            answer = json.loads(output)
            status = answer["status"]
            version = answer["apiVersion"]
            credential = ExecCredential(
                str(status.get("token") or ""),
                str(status.get("clientCertificateData") or "").encode(),
                str(status.get("clientKeyData") or "").encode(),
                _instant(status.get("expirationTimestamp")),
            )
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
        ) as error:
            msg = f"{self._where}: {self._command} printed no ExecCredential: {error!r}"
            raise ConfigError(msg) from error
        if version != self._api_version:
            msg = (
                f"{self._where}: {self._command} answered with apiVersion {version}, "
                f"not {self._api_version}"
            )
            raise ConfigError(msg)
        if bool(credential.certificate) != bool(credential.key):
            msg = f"{self._where}: a client certificate and its key belong together"
            raise ConfigError(msg)
        if not credential.token and not credential.certificate:
            msg = f"{self._where}: {self._command} returned no token and no certificate"
            raise ConfigError(msg)
        return credential


def _instant(text: str | None) -> datetime | None:
    return parse_rfc3339(text) if text else None


def _command(section: ExecSection, directory: Path | None, where: str) -> str:
    if not section.command:
        msg = f"{where}: no command is named"
        raise ConfigError(msg)
    if directory is not None and os.sep in section.command:
        # As upstream: a path is relative to the kubeconfig; a name without a slash
        # is looked up in $PATH.
        return str(directory / section.command)
    return section.command


def _exec_info(
    section: ExecSection, cluster: ClusterSection, authorities: bytes
) -> str:
    """Return the ExecCredential for the plugin's $KUBERNETES_EXEC_INFO, as JSON.

    The fields of the cluster have the names that they have in a kubeconfig.
    """
    spec: dict[str, Any] = {"interactive": False}
    if section.provide_cluster_info:
        given = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": base64.b64encode(authorities).decode(),
            "proxy-url": cluster.proxy_url,
        }
        spec["cluster"] = {name: value for name, value in given.items() if value}
        for extension in cluster.extensions or ():
            if extension.name == _EXTENSION:
                spec["cluster"]["config"] = extension.extension
    info = {"apiVersion": section.api_version, "kind": "ExecCredential", "spec": spec}
    return json.dumps(info, default=str)
