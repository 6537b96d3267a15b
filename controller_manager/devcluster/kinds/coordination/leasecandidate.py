"""LeaseCandidate: a process that an API server may elect as the holder of a lease.

No election takes place here: nothing in the development cluster writes the holder.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.names import key_problems
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.server.rest.kind import GatedKind
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.field_values import validate_unchanged
from controller_manager.options.gates import COORDINATED_ELECTION

from .strategies import OLDEST_EMULATION, validate_strategy

_Version = tuple[int, ...]

_SEMANTIC_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)


class LeaseCandidateStrategy(Strategy):
    """The name of the lease is immutable."""

    allows_unconditional_update: ClassVar = False
    columns: ClassVar = (
        NAME,
        Column("LeaseName"),
        Column("BinaryVersion"),
        Column("EmulationVersion"),
        AGE,
    )

    def validate_name(self, name: str) -> list[Cause]:
        """Check the name, which may be each valid key of a config map."""
        field = "metadata.name"
        return [invalid(field, shown(name), why) for why in key_problems(name)]

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the versions and the strategy (ValidateLeaseCandidateSpec)."""
        spec = obj.get("spec", {})
        causes = [] if spec.get("leaseName") else [required("spec.leaseName")]
        causes += _validate_versions(spec)
        strategy = spec.get("strategy", "")
        if not strategy:
            return [*causes, required("spec.strategy")]
        if strategy == OLDEST_EMULATION and not spec.get("emulationVersion"):
            why = f"must be specified when `strategy` is '{OLDEST_EMULATION}'"
            causes.append(required("spec.emulationVersion", why))
        return [*causes, *validate_strategy(strategy, "spec.strategy")]

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the lease does not change."""
        return validate_unchanged(
            old.get("spec", {}), new.get("spec", {}), "spec", "leaseName"
        )

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj.get("spec", {})
        names = ("leaseName", "binaryVersion", "emulationVersion")
        return [name_of(obj), *(spec.get(each, "") for each in names), age(obj, now)]


def _validate_versions(spec: JSON) -> list[Cause]:
    """Check that both versions are semantic, and the emulated version is not newer."""
    causes, versions = [], {}
    for name in ("emulationVersion", "binaryVersion"):
        field, text = f"spec.{name}", spec.get(name, "")
        versions[name] = _version(text)
        if text and versions[name] is None:
            why = "must be a valid semantic version"
            causes.append(invalid(field, shown(text), why))
        elif not text and name == "binaryVersion":
            causes.append(required(field))
    binary, emulated = versions["binaryVersion"], versions["emulationVersion"]
    if binary is not None and emulated is not None and binary < emulated:
        why = "must be greater than or equal to `emulationVersion`"
        text = shown(spec["binaryVersion"])
        causes.append(invalid("spec.binaryVersion", text, why))
    return causes


def _version(text: str) -> _Version | None:
    found = _SEMANTIC_VERSION.fullmatch(text)
    return tuple(map(int, found.groups())) if found is not None else None


KIND: Final = GatedKind(
    kind_of("coordination.k8s.io/v1beta1", "leasecandidates", LeaseCandidateStrategy()),
    required_gate=COORDINATED_ELECTION,
)
