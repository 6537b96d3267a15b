"""serviceaccount-token-controller: fills and deletes secrets with legacy tokens."""

from typing import Final

from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.core.v1 import SERVICE_ACCOUNTS
from controller_manager.options.config import Config
from controller_manager.options.controller_options import (
    ControllerOptions,
    concurrency,
    option,
)
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow

_SECTION: Final = "Serviceaccount-controller"
"""Upstream keeps these flags with those of another controller."""


class TokensOptions(ControllerOptions):
    """The number of workers, and the key that signs tokens."""

    concurrent_syncs: int = concurrency(
        "concurrent-serviceaccount-token-syncs",
        5,
        "SAController.ConcurrentSATokenSyncs",
        "service account tokens",
        section=_SECTION,
    )
    private_key_file: str = option(
        "service-account-private-key-file",
        "string",
        None,
        "A file with the private RSA or ECDSA key, as PEM, that signs the tokens "
        "of service accounts.",
        "SAController.ServiceAccountKeyFile",
        section=_SECTION,
    )


def _lacks(config: Config, _: str) -> str:
    has_key = config.of(TokensOptions).private_key_file
    return "" if has_key else "--service-account-private-key-file"


CONTROLLER = Descriptor(
    name="serviceaccount-token-controller",
    aliases=("serviceaccount-token",),
    load=".controller:TokensReconciler",
    requires=(SERVICE_ACCOUNTS, SECRETS),
    options=TokensOptions,
    lacks=_lacks,
    permissions=(
        allow(SECRETS, "delete", "update"),
        allow(SERVICE_ACCOUNTS, "get", "update"),
    ),
    runs_first=True,
)
