"""Creates the account again whenever it is missing (serviceaccounts_controller.go)."""

from dataclasses import replace
from typing import Final

from controller_manager.api.core.v1 import (
    NAMESPACES,
    SERVICE_ACCOUNTS,
    Namespace,
    ServiceAccount,
)
from controller_manager.api.meta import ObjectMeta
from controller_manager.client.rest import errors
from controller_manager.control.publishing import is_active, namespace_of
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

_NAME: Final = "default"

_DEFAULT_ACCOUNTS: Final = replace(
    SERVICE_ACCOUNTS, field_selector=f"metadata.name={_NAME}"
)
"""The controller watches only these accounts; upstream caches all accounts."""


class ServiceAccountReconciler(Reconciler[Namespace]):
    """Keeps a default service account in every active namespace."""

    watches = (
        For(NAMESPACES),
        Maps(_DEFAULT_ACCOUNTS, namespace_of, on=("delete",)),
    )
    queue_name = "serviceaccount"

    async def reconcile(self, namespace: Namespace) -> Outcome:
        """Create the account in the namespace if it is missing."""
        name = namespace.metadata.name
        accounts = self.lister(_DEFAULT_ACCOUNTS)
        if not is_active(namespace) or accounts.get(name, _NAME) is not None:
            return DONE
        account = ServiceAccount(metadata=ObjectMeta(name=_NAME, namespace=name))
        try:
            await self.client.create_for_metadata(SERVICE_ACCOUNTS, account)
        except errors.AlreadyExists:
            return DONE
        except errors.APIError as error:
            if not errors.is_namespace_terminating(error):
                raise
        return DONE
