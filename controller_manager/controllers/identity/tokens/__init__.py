"""serviceaccount-token-controller: fills and deletes secrets with legacy tokens."""

from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.core.v1 import SERVICE_ACCOUNTS
from controller_manager.options.config import Config
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow

from .options import TokensOptions


def _lacks(config: Config, _: str) -> str:
    """Return the flag of the key that signs tokens, if it is not given."""
    has_key = config.of(TokensOptions).private_key_file
    return "" if has_key else "--service-account-private-key-file"


CONTROLLER = Descriptor(
    name="serviceaccount-token-controller",
    aliases=("serviceaccount-token",),
    load=".reconciler:TokensReconciler",
    requires=(SERVICE_ACCOUNTS, SECRETS),
    options=TokensOptions,
    lacks=_lacks,
    permissions=(
        allow(SECRETS, "delete", "update"),
        allow(SERVICE_ACCOUNTS, "get", "update"),
    ),
    runs_first=True,
)
