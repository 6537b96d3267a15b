"""Token sources: a fixed value, a file, an exec plugin, a legacy auth-provider.

kubernetes_asyncio is imported only for legacy auth-providers: its package costs
38 MB and most of a second.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from controller_manager.clock import Clock

from .exec_plugin import ExecPlugin
from .kubeconfig import ConfigError, Context

_TOKEN_LIFETIME: Final = 60.0
"""Seconds after which a token file is read again, as client-go does."""


class TokenSource(Protocol):
    """Gives the value of the Authorization header."""

    may_wait: ClassVar[bool]
    """True if `authorization` may wait for a program or a server."""

    async def authorization(self) -> str:
        """Return the value of the header, empty for none; raises ConfigError."""

    async def refresh(self, presented: str) -> bool:
        """Renew the value after a 401; tell whether there is a different one now.

        `presented` is the value that the server refused. Several requests may be
        refused for the same value: only the first of them renews it. Raises
        ConfigError.
        """

    async def close(self) -> None:
        """Stop background work."""


class FixedAuthorization:
    """A value that never changes: a token, a password, or none."""

    may_wait: ClassVar[bool] = False

    def __init__(self, value: str = "") -> None:
        self._value = value

    async def authorization(self) -> str:
        """Return the value."""
        return self._value

    async def refresh(self, presented: str) -> bool:
        """Do nothing: there is no other value."""
        return presented != self._value

    async def close(self) -> None:
        """Do nothing: there is no background work."""


class TokenFile:
    """A token in a file that the kubelet renews; the file is read every minute."""

    may_wait: ClassVar[bool] = False

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_at = float("-inf")

    async def authorization(self) -> str:
        """Return the token; if the file is unusable, the last token stays in use."""
        if self._clock.monotonic() - self._read_at >= _TOKEN_LIFETIME:
            self._read()
        return f"Bearer {self._token}"

    async def refresh(self, presented: str) -> bool:
        """Read the file again at once."""
        if presented == f"Bearer {self._token}":
            self._read()
        return presented != f"Bearer {self._token}"

    async def close(self) -> None:
        """Do nothing: there is no background work."""

    def _read(self) -> None:
        try:
            self._token = self._content()
        except ConfigError:
            if not self._token:
                raise
            return  # the token that was valid a minute ago may still be valid
        self._read_at = self._clock.monotonic()

    def _content(self) -> str:
        where = f"token file {self._path}"
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "not UTF-8 text"
            msg = f"{where}: {why}"
            raise ConfigError(msg) from error
        if not token:
            # Most likely the kubelet is writing it at this moment.
            msg = f"{where}: the file is empty"
            raise ConfigError(msg)
        return sendable(token, where)


class PluginToken:
    """The token of an exec plugin."""

    may_wait: ClassVar[bool] = True

    def __init__(self, plugin: ExecPlugin) -> None:
        self._plugin = plugin

    async def authorization(self) -> str:
        """Return the token; empty if the plugin gives only a certificate."""
        token = (await self._plugin.credential()).token
        return f"Bearer {sendable(token, 'exec')}" if token else ""

    async def refresh(self, presented: str) -> bool:
        """Run the plugin again."""
        return await self._plugin.refresh(presented.removeprefix("Bearer "))

    async def close(self) -> None:
        """Cancel a run that is in progress."""
        await self._plugin.close()


class AuthProvider:
    """The legacy auth-provider (gcp, oidc), which kubernetes_asyncio implements."""

    may_wait: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        self._context = context
        # A copy: the provider writes new tokens into it, in the thread of this one.
        self._config = deepcopy(dict(context.config))
        self._loader: Any = None

    async def authorization(self) -> str:
        """Return the header's value; kubernetes_asyncio renews it when it expires."""
        from kubernetes_asyncio.config.kube_config import (  # noqa: PLC0415 - 38 MB
            KubeConfigLoader,
        )

        if self._loader is None:
            self._loader = KubeConfigLoader(
                config_dict=dict(self._config),
                active_context=self._context.name,
                config_base_path=str(self._context.base),
            )
        try:
            await self._loader._load_authentication()  # noqa: SLF001 - its only entry
        except Exception as error:
            msg = f"{self._context.where}: the auth-provider failed: {error}"
            raise ConfigError(msg) from error
        token = getattr(self._loader, "token", None)
        if not token:
            msg = f"{self._context.where}: the auth-provider returned no token"
            raise ConfigError(msg)
        return str(token)

    async def refresh(self, presented: str) -> bool:
        """Ask the provider for a new value."""
        self._loader = None
        return presented != await self.authorization()

    async def close(self) -> None:
        """Do nothing: there is no background work."""


def sendable(token: str, where: str) -> str:
    """Return `token` if a header can carry it; raises ConfigError if not."""
    if not token.isprintable():
        msg = f"{where}: the token contains characters that cannot be sent"
        raise ConfigError(msg)
    return token
