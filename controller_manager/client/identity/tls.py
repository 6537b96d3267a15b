"""TLS settings of a client, renewed when certificate files change."""

import os
import re
import ssl
import tempfile
from collections import Counter
from pathlib import Path
from typing import BinaryIO, Final, cast

from msgspec import Struct, field

from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.options.tls import DEFAULT_CIPHERS

from .exec_plugin import ExecCredential
from .kubeconfig import ConfigError
from .trust import set_verify_flags

_TLS_CHECK: Final = 10.0
"""Seconds after which certificate files are read again."""

_AUTHORITY: Final = "certificate-authority"

Material = bytes | Path


class TLSMaterial(Struct, frozen=True):
    """Certificates and key to connect with, as PEM data or as files."""

    where: str = "kubeconfig"
    authority: Material | None = None
    certificate: Material | None = None
    key: Material | None = None
    verify: bool = True


class TLSSettings(Struct):
    """Makes the TLS settings, and makes new ones when a file has changed."""

    material: TLSMaterial
    clock: Clock
    logger: Logger
    context: ssl.SSLContext | None = None
    contents: tuple[bytes | None, ...] = ()
    checked_at: float = field(default=float("-inf"))
    plugin: ExecCredential | None = None
    """The plugin's credential at the last check."""
    reloads: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of reloads of the authorities' file, by result and reason."""

    def authority(self) -> bytes:
        """Return the configured authorities as PEM, empty for the system's."""
        return (self.contents[0] if self.contents else None) or b""

    def current(self, plugin: ExecCredential | None) -> ssl.SSLContext:
        """Return the settings; a plugin's certificate takes precedence over a file's.

        Raises ConfigError if there have never been usable settings.
        """
        now = self.clock.monotonic()
        is_due = now - self.checked_at >= _TLS_CHECK or plugin is not self.plugin
        if self.context is None or is_due:
            self.checked_at, self.plugin = now, plugin
            self.check(plugin)
        assert self.context is not None  # noqa: S101 - check raises else
        return self.context

    def check(self, plugin: ExecCredential | None = None) -> bool:
        """Read the files; tell whether the settings have changed."""
        try:
            contents = self._read(plugin)
            if self.context is not None and contents == self.contents:
                self._count_reload("success", "unchanged")
                return False
            context = self._made(*contents)
        except ConfigError as error:
            if self.context is None:
                raise
            if isinstance(error, _AuthorityError):
                self._count_reload("failure", error.reason)
            # Most likely only one of the two files has been replaced so far.
            self.logger.warning("New certificates are not usable", err=str(error))
            return False
        if self.context is not None:
            is_new = contents[0] != self.contents[0]
            self._count_reload("success", "updated" if is_new else "unchanged")
        self.context, self.contents = context, contents
        return True

    def _count_reload(self, result: str, reason: str) -> None:
        if isinstance(self.material.authority, Path):
            self.reloads[result, reason] += 1

    def _read(self, plugin: ExecCredential | None) -> tuple[bytes | None, ...]:
        given = (
            (_AUTHORITY, self.material.authority),
            ("client-certificate", self.material.certificate),
            ("client-key", self.material.key),
        )
        contents = [self._content(name, source) for name, source in given]
        if plugin is not None and plugin.certificate:
            contents[1:] = [plugin.certificate, plugin.key]
        return tuple(contents)

    def _content(self, name: str, source: Material | None) -> bytes | None:
        if source is None:
            return None
        try:
            content = source.read_bytes() if isinstance(source, Path) else source
        except OSError as error:
            msg = f"{self.material.where}: {name} {error.filename}: {error.strerror}"
            raise _problem(name, msg, "read_error") from error
        if not content.strip():
            # An empty file must not mean that every authority, or none, is trusted.
            msg = f"{self.material.where}: {name} is empty"
            raise _problem(name, msg, "empty")
        return content

    def _made(
        self, authority: bytes | None, certificate: bytes | None, key: bytes | None
    ) -> ssl.SSLContext:
        name = _AUTHORITY
        try:
            context = ssl.create_default_context(
                cadata=pem_only(authority) if authority else None
            )
            set_verify_flags(context)
            context.set_ciphers(":".join(DEFAULT_CIPHERS))
            if not self.material.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if certificate and key:
                name = "client-certificate or client-key"
                load_certificate(context, certificate, key)
        except (OSError, ValueError) as error:
            msg = (
                f"{self.material.where}: {name} cannot be used: "
                f"it must be PEM ({tls_reason(error)})"
            )
            raise _problem(name, msg, "ca_parse_error") from error
        return context


class _AuthorityError(ConfigError):
    """The authorities cannot be used; `reason` is client-go's word for why."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def _problem(name: str, message: str, reason: str) -> ConfigError:
    if name == _AUTHORITY:
        return _AuthorityError(message, reason)
    return ConfigError(message)


def pem_only(data: bytes) -> str:
    """Return only the PEM blocks of `data`, without text between them.

    Raises ValueError if there is no PEM block.
    """
    blocks = re.findall(rb"-----BEGIN [^-]+-----[^-]+-----END [^-]+-----", data)
    if not blocks:
        msg = "there is no PEM block in it"
        raise ValueError(msg)
    return b"\n".join(blocks).decode("ascii") + "\n"


def tls_reason(error: BaseException) -> str:
    """Return why the TLS library does not accept a certificate or key."""
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
    return str(reason or error)


def load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Add a certificate to a context; raises OSError or ValueError if unusable."""
    if b"ENCRYPTED" in key:
        # OpenSSL would ask for the passphrase on the terminal.
        msg = "the key is encrypted; give one without a passphrase"
        raise ValueError(msg)
    # The ssl module takes certificates from files only.
    with _file_in_memory() as file:
        file.write(certificate + b"\n" + key)
        file.seek(0)
        context.load_cert_chain(f"/dev/fd/{file.fileno()}")


def _file_in_memory() -> BinaryIO:
    """Return a file for which no directory must be writable, if the system has such."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("certificate"), "w+b")
    return cast(BinaryIO, tempfile.TemporaryFile())
