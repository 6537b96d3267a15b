"""Deletes expired bootstrap tokens, each at its time (tokencleaner.go)."""

from contextlib import suppress

from controller_manager.api.core import secrets
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.client.rest.errors import NotFound
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For


class TokenCleanerReconciler(Reconciler[secrets.Secret]):
    """Deletes each bootstrap token at its time; the clock is the API server's."""

    watches = (For(secrets.BOOTSTRAP_SECRETS, when=secrets.is_bootstrap_token),)
    queue_name = "token_cleaner"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._server_clock = context.server_clock

    async def reconcile(self, secret: secrets.Secret) -> Outcome:
        """Delete a token that has expired, else requeue it for that time."""
        if is_deleting(secret):
            return DONE
        left = secrets.time_left(secret, self._server_clock.now())
        if left is None:
            return DONE
        if left:
            return Done(left.total_seconds())
        self.logger.v(3).info("Deleting expired secret", secret=key_of(secret))
        with suppress(NotFound):  # it may be deleted already
            await self.client.delete_exactly(secrets.SECRETS, secret, same_version=True)
        return DONE
