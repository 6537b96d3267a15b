"""The levels in the labels of a namespace (pod-security-admission/api)."""

import re
from typing import Final, NamedTuple

from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown

PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
"""From the least strict one to the strictest one."""

LATEST: Final = 10**9
"""The minor version ``latest``, which is later than all others."""

_PREFIX: Final = "pod-security.kubernetes.io/"
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,8})", re.ASCII)
_WRONG_LEVEL: Final = f"must be one of {', '.join(LEVELS)}"
_WRONG_VERSION: Final = 'must be "latest" or "v1.x"'


class LevelVersion(NamedTuple):
    """A level in the form of a minor version of Kubernetes."""

    level: str = PRIVILEGED
    minor: int = LATEST

    def __str__(self) -> str:
        """Return the text for messages, such as ``baseline:v1.30``."""
        version = "latest" if self.minor == LATEST else f"v1.{self.minor}"
        return f"{self.level}:{version}"

    def is_stricter_than(self, other: "LevelVersion") -> bool:
        """Compare the levels alone."""
        return LEVELS.index(self.level) > LEVELS.index(other.level)


class Policy(NamedTuple):
    """The policy of a namespace: the levels for enforcement and for warnings."""

    enforce: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()


_NO_POLICY: Final = Policy()
_LABELS: Final = frozenset(
    f"{_PREFIX}{mode}{end}"
    for mode in ("audit", "enforce", "warn")
    for end in ("", "-version")
)


def policy_of(labels: dict[str, str]) -> tuple[Policy, list[Cause]]:
    """Return the policy of a namespace, and the errors in its labels.

    Without a level for warnings, that of enforcement counts. A wrong level counts as
    ``restricted`` where it is enforced, and as ``privileged`` elsewhere; a wrong
    version counts as the latest. (PolicyToEvaluate)
    """
    causes: list[Cause] = []
    if _LABELS.isdisjoint(labels):
        return _NO_POLICY, causes
    enforce = _level_version(labels, "enforce", RESTRICTED, causes)
    _level_version(labels, "audit", PRIVILEGED, causes)
    warn = _level_version(labels, "warn", PRIVILEGED, causes)
    if f"{_PREFIX}warn" not in labels and labels.get(f"{_PREFIX}enforce") in LEVELS:
        has_version = f"{_PREFIX}warn-version" in labels
        warn = LevelVersion(enforce.level, (warn if has_version else enforce).minor)
    return Policy(enforce, warn), causes


def _level_version(
    labels: dict[str, str], mode: str, wrong: str, causes: list[Cause]
) -> LevelVersion:
    """Read the two labels of a mode; add their errors to `causes`."""
    level = labels.get(f"{_PREFIX}{mode}", PRIVILEGED)
    if level not in LEVELS:
        causes.append(_wrong_label(f"{_PREFIX}{mode}", level, _WRONG_LEVEL))
        level = wrong
    text = labels.get(f"{_PREFIX}{mode}-version", "latest")
    match = _VERSION.fullmatch(text)
    if match is None and text != "latest":
        causes.append(_wrong_label(f"{_PREFIX}{mode}-version", text, _WRONG_VERSION))
    return LevelVersion(level, int(match[1]) if match else LATEST)


def _wrong_label(label: str, value: str, why: str) -> Cause:
    return invalid(f"metadata.labels[{label}]", shown(value), why)
