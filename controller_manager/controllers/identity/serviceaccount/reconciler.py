"""Creating the account, and creating it again (serviceaccounts_controller.go)."""

from dataclasses import replace
from typing import Final

from controller_manager.api.core.v1 import SERVICE_ACCOUNTS, ServiceAccount
from controller_manager.api.meta import ObjectMeta
from controller_manager.client.errors import (
    AlreadyExists,
    APIError,
    is_namespace_terminating,
)
from controller_manager.control.namespaces import ActiveNamespaces
from controller_manager.informers.informer import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import DONE, Outcome

_NAME: Final = "default"

_DEFAULT_ACCOUNTS: Final = replace(
    SERVICE_ACCOUNTS, field_selector=f"metadata.name={_NAME}"
)
"""Only these are watched; upstream caches all accounts there are."""


def init_serviceaccount_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newServiceAccountController)."""
    controller = ServiceAccountController(context)
    return context.workers(
        controller.queue, controller.sync, 1, controller.namespaces.enqueue_all
    )


class ServiceAccountController:
    """Keeps a default service account in every active namespace."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context and watch namespaces and default accounts."""
        self.queue = context.queue("serviceaccount")
        self._client = context.client
        self.namespaces = ActiveNamespaces(context.informers, self.queue)
        self._accounts = context.informers.informer(_DEFAULT_ACCOUNTS)
        self._accounts.add_handler(
            Handler(on_delete=lambda gone: self.queue.add(gone.metadata.namespace))
        )

    async def sync(self, key: str) -> Outcome:
        """Create the account in the namespace of that name if it is missing."""
        if key not in self.namespaces:
            return DONE
        if self._accounts.store.get(f"{key}/{_NAME}") is not None:
            return DONE
        account = ServiceAccount(metadata=ObjectMeta(name=_NAME, namespace=key))
        try:
            await self._client.create(SERVICE_ACCOUNTS, account)
        except AlreadyExists:
            return DONE
        except APIError as error:
            if not is_namespace_terminating(error):
                raise
        return DONE
