"""Keeps the signatures of cluster-info right (bootstrapsigner.go)."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

from msgspec import structs

from controller_manager.api.core.bootstrap_tokens import (
    BOOTSTRAP_SECRETS,
    is_bootstrap_token,
    time_left,
)
from controller_manager.api.core.secrets import Secret
from controller_manager.api.core.v1 import CONFIG_MAPS, ConfigMap
from controller_manager.api.meta import is_deleting
from controller_manager.client.errors import Conflict, NotFound
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome, failure_of
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

from . import CLUSTER_INFO, PUBLIC
from .signatures import CONTENT, signed, signing_tokens

_MAPS: Final = replace(CONFIG_MAPS, field_selector=f"metadata.name={CLUSTER_INFO}")
"""The controller watches only these config maps, at most one in each namespace."""


def _is_public(config_map: ConfigMap) -> bool:
    return config_map.metadata.namespace == PUBLIC


def _cluster_info(_: object, secret: Secret) -> Iterable[str]:
    return (f"{PUBLIC}/{CLUSTER_INFO}",) if is_bootstrap_token(secret) else ()


class BootstrapSignerReconciler(Reconciler[ConfigMap]):
    """Signs one config map with all bootstrap tokens that may sign."""

    watches = (For(_MAPS, when=_is_public), Maps(BOOTSTRAP_SECRETS, _cluster_info))
    queue_name = "bootstrap_signer_queue"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._server_clock = context.server_clock

    async def reconcile(self, config_map: ConfigMap) -> Outcome:
        """Write the signatures that are missing or wrong, and remove the others."""
        if is_deleting(config_map):
            return DONE
        # A cluster has a few tokens; each of them contributes a signature.
        secrets = self.lister(BOOTSTRAP_SECRETS).all()
        now = self._server_clock.now()
        data = config_map.data or {}
        if CONTENT not in data:
            self.logger.v(3).info("No key in ConfigMap", key=CONTENT)
            return DONE
        wanted = signed(data, signing_tokens(secrets, now))
        expires_in = _seconds_until_one_expires(secrets, now)
        if wanted is not None:
            signing = self._write(structs.replace(config_map, data=wanted))
            if failed := await failure_of(signing, expires_in):
                return failed
        return Done(expires_in)

    async def _write(self, config_map: ConfigMap) -> None:
        # If it was deleted or has changed, that causes the next sync.
        with suppress(NotFound, Conflict):
            await self.client.update(CONFIG_MAPS, config_map)


def _seconds_until_one_expires(
    secrets: Iterable[Secret], now: datetime
) -> float | None:
    """Return the seconds until the next token stops signing."""
    left = (time_left(each, now) for each in secrets if is_bootstrap_token(each))
    return min((each.total_seconds() for each in left if each), default=None)
