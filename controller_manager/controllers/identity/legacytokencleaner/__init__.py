"""legacy-serviceaccount-token-cleaner-controller: deletes unused tokens."""

from typing import Final

from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.core.v1 import CONFIG_MAPS, PODS, SERVICE_ACCOUNTS
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.durations import parse_duration
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow


def _positive(value: str) -> str:
    return "" if parse_duration(value) > 0 else f"must be more than 0s, it is {value}"


class LegacyTokenCleanerOptions(ControllerOptions):
    """The period in seconds for which a token must be unused."""

    clean_up_period: float = option(
        "legacy-service-account-token-clean-up-period",
        "duration",
        "8760h0m0s",
        "The time since the last use after which a legacy token is marked as "
        "invalid, and after as long again deleted.",
        "LegacySATokenCleaner.CleanUpPeriod",
        check=_positive,
    )


TRACKING: Final = "kube-apiserver-legacy-service-account-token-tracking"
"""The config map with the day since which API servers track the use of tokens."""

CONTROLLER = Descriptor(
    name="legacy-serviceaccount-token-cleaner-controller",
    aliases=("legacy-service-account-token-cleaner",),
    load=".controller:init_legacy_token_cleaner",
    requires=(SERVICE_ACCOUNTS, SECRETS, PODS),
    options=LegacyTokenCleanerOptions,
    permissions=(
        allow(CONFIG_MAPS, "get", names=(TRACKING,)),
        allow(SECRETS, "delete", "patch"),
    ),
    service_account="legacy-service-account-token-cleaner",
)
