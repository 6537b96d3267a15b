"""Credentials that a program prints (client.authentication.k8s.io).

Upstream: client-go plugin/pkg/client/auth/exec. kubernetes_asyncio's provider
has no timeout, no certificates and no cache, so the protocol is spoken here.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from controller_manager.api.times import parse_time
from controller_manager.client.kubeconfig import ConfigError
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger

_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
_TIMEOUT: Final = 60.0
_BACKOFF_CAP: Final = 60.0
_LEEWAY: Final = timedelta(seconds=60)
_MAX_OUTPUT: Final = 200


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """What a plugin returned; without `expires_at` it lasts until a 401."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires_at: datetime | None = None


class ExecPlugin:
    """Runs a credential plugin when its credential is needed or about to end.

    One run at a time, killed after a minute. A credential within a minute of
    its expiry is renewed in the background and used meanwhile. When the plugin
    fails, the old credential stays in use as long as it is valid; after that
    every request fails, and the plugin is tried again after 1, 2, 4 … 60 s.
    """

    def __init__(
        self,
        section: Mapping[str, Any],
        cluster: Mapping[str, Any],
        where: str,
        *,
        clock: Clock,
        logger: Logger,
        directory: Path | None = None,
    ) -> None:
        """Take the ``exec`` section of a user and the cluster that it is for.

        `directory` is what a relative command is resolved against. Raises
        ConfigError if the section cannot be used.
        """
        self._where = f"{where}: exec"
        self._command = _command(section, directory, self._where)
        self._arguments = [str(each) for each in section.get("args") or ()]
        self._environment = {
            str(entry["name"]): str(entry["value"])
            for entry in section.get("env") or ()
        }
        self._api_version = str(section.get("apiVersion") or "")
        if self._api_version not in _VERSIONS:
            msg = (
                f"{self._where}: apiVersion {self._api_version!r} is not supported; "
                f"use {' or '.join(_VERSIONS)}"
            )
            raise ConfigError(msg)
        if section.get("interactiveMode") == "Always":
            msg = f"{self._where}: interactiveMode Always needs a terminal; use Never"
            raise ConfigError(msg)
        self._info = _exec_info(self._api_version, section, cluster)
        self._hint = str(section.get("installHint") or "")
        self._clock = clock
        self._logger = logger
        self._credential: ExecCredential | None = None
        self._lock = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._failures = 0
        self._not_before = float("-inf")
        self._last_error: ConfigError | None = None

    @property
    def expires_at(self) -> datetime | None:
        """When the credential in use ends, `None` if that is not known."""
        return self._credential.expires_at if self._credential else None

    async def credential(self) -> ExecCredential:
        """Return a valid credential; raises ConfigError if there is none."""
        current = self._credential
        if current is not None and not self._expired(current):
            if self._ends_soon(current) and self._may_run():
                self._renew_in_background()
            return current
        async with self._lock:
            if self._credential is None or self._expired(self._credential):
                await self._run()
            assert self._credential is not None  # noqa: S101 - _run raises else
            return self._credential

    async def refresh(self, refused: ExecCredential | None = None) -> bool:
        """Run the plugin because its credential was refused; tell if it helped.

        Nothing is run if `refused` is not the credential in use any more.
        """
        async with self._lock:
            if refused is not None and refused is not self._credential:
                return True
            before = self._credential
            try:
                await self._run()
            except ConfigError as error:
                self._logger.warning("Credential plugin failed", err=str(error))
                return False
            return self._credential != before

    async def close(self) -> None:
        """Give up a renewal that is under way."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)

    def _expired(self, credential: ExecCredential) -> bool:
        ends = credential.expires_at
        return ends is not None and self._clock.now() >= ends

    def _ends_soon(self, credential: ExecCredential) -> bool:
        ends = credential.expires_at
        return ends is not None and self._clock.now() >= ends - _LEEWAY

    def _may_run(self) -> bool:
        return self._clock.monotonic() >= self._not_before

    def _renew_in_background(self) -> None:
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew(), name="exec-plugin")

    async def _renew(self) -> None:
        async with self._lock:
            try:
                await self._run()
            except ConfigError as error:
                self._logger.warning(
                    "Credential plugin failed, the old credential stays in use",
                    err=str(error),
                )

    async def _run(self) -> None:
        """Run the plugin unless it failed a moment ago."""
        if not self._may_run() and self._last_error is not None:
            raise self._last_error
        try:
            self._credential = await self._execute()
        except ConfigError as error:
            delay = min(2.0**self._failures, _BACKOFF_CAP)
            self._failures += 1
            self._not_before = self._clock.monotonic() + delay
            self._last_error = error
            raise
        self._failures = 0
        self._not_before = float("-inf")

    async def _execute(self) -> ExecCredential:
        environment = {
            **os.environ,
            **self._environment,
            "KUBERNETES_EXEC_INFO": self._info,
        }
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *self._arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"; {self._hint}" if self._hint else ""
            msg = f"{self._where}: {self._command}: {error.strerror}{hint}"
            raise ConfigError(msg) from error
        try:
            async with asyncio.timeout(_TIMEOUT):
                output, complaints = await process.communicate()
        except TimeoutError:
            msg = f"{self._where}: {self._command} gave no answer within {_TIMEOUT:g} s"
            raise ConfigError(msg) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = complaints.decode("utf-8", "replace").strip()[:_MAX_OUTPUT]
            msg = f"{self._where}: {self._command} exited with {process.returncode}" + (
                f": {' '.join(said.split())}" if said else ""
            )
            raise ConfigError(msg)
        return self._parsed(output)

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
        except (ValueError, LookupError, TypeError, AttributeError) as error:
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
    return parse_time(text).astimezone(UTC) if text else None


def _command(section: Mapping[str, Any], directory: Path | None, where: str) -> str:
    command = str(section.get("command") or "")
    if not command:
        msg = f"{where}: no command is named"
        raise ConfigError(msg)
    if directory is not None and os.sep in command:
        # As upstream: only a path is relative to the kubeconfig, a bare name
        # is looked up in $PATH.
        return str(directory / command)
    return command


def _exec_info(
    api_version: str, section: Mapping[str, Any], cluster: Mapping[str, Any]
) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if section.get("provideClusterInfo"):
        names = {
            "server": "server",
            "tls-server-name": "tlsServerName",
            "insecure-skip-tls-verify": "insecureSkipTLSVerify",
            "certificate-authority-data": "certificateAuthorityData",
            "proxy-url": "proxyURL",
        }
        spec["cluster"] = {
            theirs: cluster[ours] for ours, theirs in names.items() if ours in cluster
        }
        for extension in cluster.get("extensions") or ():
            if extension.get("name") == "client.authentication.k8s.io/exec":
                spec["cluster"]["config"] = extension.get("extension")
    return json.dumps(
        {"apiVersion": api_version, "kind": "ExecCredential", "spec": spec}
    )
