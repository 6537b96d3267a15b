"""The checks that a level has in a version (pod-security-admission/policy/registry)."""

from collections.abc import Iterable
from functools import cache
from typing import Final

from controller_manager.api.json_objects import JSON

from .baseline_checks import BASELINE_CHECKS
from .checks import Check, CheckPod, Violation
from .host_checks import HOST_CHECKS
from .levels import PRIVILEGED, RESTRICTED, LevelVersion
from .restricted_checks import RESTRICTED_CHECKS

_NEWEST: Final = 35
"""The last minor version in which a check has changed."""


def violations(wanted: LevelVersion, metadata: JSON, spec: JSON) -> list[Violation]:
    """Return the violations of a level by a pod.

    Those of ``baseline`` come first, then the others, each part in the order of the
    names of the checks.
    """
    if wanted.level == PRIVILEGED:
        return []
    checks = _checks(wanted.level, min(wanted.minor, _NEWEST))
    found = (check(metadata, spec) for check in checks)
    return [each for each in found if each is not None]


@cache
def _checks(level: str, minor: int) -> tuple[CheckPod, ...]:
    restricted: list[Check] = []
    if level == RESTRICTED:
        restricted = [each for each in RESTRICTED_CHECKS if each.at(minor)]
    overridden = {each.overrides for each in restricted}
    baseline = [
        each for each in (*BASELINE_CHECKS, *HOST_CHECKS) if each.name not in overridden
    ]
    ordered = [*_by_name(baseline), *_by_name(restricted)]
    return tuple(form for each in ordered if (form := each.at(minor)))


def _by_name(checks: Iterable[Check]) -> list[Check]:
    return sorted(checks, key=lambda each: each.name)
