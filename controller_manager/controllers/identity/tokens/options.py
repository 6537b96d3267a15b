"""The flags of the controller of token secrets."""

from typing import Final

from msgspec.structs import replace

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag, concurrency

_SECTION: Final = "Serviceaccount-controller"
"""Upstream keeps these flags with those of another controller."""


class TokensOptions(ControllerOptions):
    """The number of workers, and the key that signs tokens."""

    concurrent_syncs: int = option(
        replace(
            concurrency(
                "concurrent-serviceaccount-token-syncs",
                5,
                "SAController.ConcurrentSATokenSyncs",
                "service account tokens",
            ),
            section=_SECTION,
        )
    )
    private_key_file: str = option(
        Flag(
            "service-account-private-key-file",
            "string",
            None,
            "A file with the private RSA or ECDSA key, as PEM, that signs the tokens "
            "of service accounts.",
            "SAController.ServiceAccountKeyFile",
            section=_SECTION,
        )
    )
