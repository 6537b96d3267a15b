"""legacy-serviceaccount-token-cleaner-controller: deletes unused tokens."""

from typing import Final

from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.core.v1 import CONFIG_MAPS, PODS, SERVICE_ACCOUNTS
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow

from .options import LegacyTokenCleanerOptions

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
