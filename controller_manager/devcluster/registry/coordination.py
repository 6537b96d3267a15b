"""The kinds of the group coordination.k8s.io: leases, and candidates for them.

No election takes place here: nothing in the development cluster writes the holder.
"""

from typing import Final

from controller_manager.devcluster.apiserver.kind import GatedKind
from controller_manager.devcluster.scheme import names
from controller_manager.devcluster.scheme.statuses import Cause, not_supported, shown
from controller_manager.options.gates import COORDINATED_ELECTION

from .kinds import kind_of

_OLDEST_EMULATION: Final = "OldestEmulationVersion"


def _election(strategy: str, field: str) -> list[Cause]:
    """Check a strategy (ValidateCoordinatedLeaseStrategy of validation.go).

    Names without a slash are those of Kubernetes. The causes name the field twice, as
    upstream's causes do.
    """
    if "/" in strategy:
        return names.validate_qualified_name(strategy, f"{field}.strategy")
    if strategy == _OLDEST_EMULATION:
        return []
    return [not_supported(f"{field}.strategy", shown(strategy), (_OLDEST_EMULATION,))]


LEASES: Final = kind_of(
    "coordination.k8s.io/v1",
    "leases",
    allows_unconditional_update=False,
    dropped=("spec.preferredHolder", "spec.strategy"),
    rules="""
        spec:
          leaseDurationSeconds: at-least 1 "must be greater than 0"
          leaseTransitions: not-negative
          strategy: election pointer
          preferredHolder: forbidden filled if strategy is null empty
            "may only be specified if `strategy` is defined"
        """,
    printer="Name; Holder: .spec.holderIdentity; Age",
    gated={COORDINATED_ELECTION: {"dropped": ()}},
)
CANDIDATES: Final = GatedKind(
    kind_of(
        "coordination.k8s.io/v1beta1",
        "leasecandidates",
        allows_unconditional_update=False,
        check_name=names.validate_config_key,
        rules="""
            spec always:
              leaseName, binaryVersion, strategy: required
              strategy: election
            """,
        update_rules="spec change:\n  leaseName: immutable",
        printer="""
            Name
            LeaseName: .spec.leaseName
            BinaryVersion: .spec.binaryVersion
            EmulationVersion: .spec.emulationVersion
            Age
            """,
    ),
    required_gate=COORDINATED_ELECTION,
)
