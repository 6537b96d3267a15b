"""The settings of the managers: each controller has something to do soon."""

import atexit
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controller_manager.controllers.certificates.signing.options import SigningOptions
from controller_manager.controllers.identity.legacytokencleaner import (
    LegacyTokenCleanerOptions,
)
from controller_manager.controllers.identity.tokens import TokensOptions
from controller_manager.controllers.nodes.podgc import PodGCOptions
from controller_manager.options.config import (
    ClientConfig,
    Config,
    GenericConfig,
    LeaderElectionConfig,
    PodRangesConfig,
    RateLimit,
    ServingConfig,
)
from controller_manager.options.gates import FeatureGates
from tests.controllers.certificates.authorities import write_authority
from tests.controllers.identity.tokens.keys import key_file

_GATES: Final = dict.fromkeys(
    (
        "ClusterTrustBundle",
        "DRADeviceTaintRules",
        "DRAResourcePoolStatus",
        "GenericWorkload",
        "PodCertificateRequest",
        "StorageVersionAPI",
        "StorageVersionMigrator",
    ),
    True,
)
_OFF_BY_DEFAULT: Final = (
    "bootstrap-signer-controller",
    "selinux-warning-controller",
    "token-cleaner-controller",
)
_RANGE: Final = "10.244.0.0/21"
"""The addresses of eight nodes: those of nodes that are gone are needed again."""

_KEPT_PODS: Final = 10
"""Ended pods that are kept."""

UNUSED_TOKENS: Final = 86400.0
"""Seconds after which a token of a service account counts as unused."""


def config_of(managers: int) -> Config:
    """Return the config of each of so many managers, with all controllers."""
    certificate, key = _authority()
    return Config(
        client=ClientConfig(limit=RateLimit(0, 0)),
        generic=GenericConfig(
            controllers=("*", *_OFF_BY_DEFAULT),
            leader_election=LeaderElectionConfig(leader_elect=managers > 1),
        ),
        serving=ServingConfig(port=0),
        features=FeatureGates(_GATES),
        pod_ranges=PodRangesConfig(allocate=True, cluster=_RANGE),
        controllers={
            SigningOptions: SigningOptions(cert_file=certificate, key_file=key),
            LegacyTokenCleanerOptions: LegacyTokenCleanerOptions(
                clean_up_period=UNUSED_TOKENS
            ),
            PodGCOptions: PodGCOptions(_KEPT_PODS),
            TokensOptions: TokensOptions(private_key_file=key_file()),
        },
    )


@cache
def _authority() -> tuple[str, str]:
    directory = TemporaryDirectory()
    atexit.register(directory.cleanup)
    return write_authority(Path(directory.name))
